"""A small local control plane: inventory, placement, launch, probes and smoke test.

It is a client of the adapters and knows no framework: what it learns about one comes in a plan.
"""
