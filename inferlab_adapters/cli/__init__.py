"""``oe``: the command line for people, a client of the adapters.

A command is a module here whose click command is called ``command``; ``main`` lists them.
"""
