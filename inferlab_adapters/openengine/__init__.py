"""OpenEngine: one gRPC interface beside every engine, in both revisions that clients speak.

The core knows no engine: a backend (``engine.py`` of an integration) is an :class:`Engine`.
"""
