"""The way into an adapter, before anything heavy is imported."""

import gc
import os
from importlib import import_module


def start(package: str) -> int:
    """Run ``package.ADAPTER`` as a program; returns the exit code."""
    # What a start-up makes lives until the end; looking through it for garbage only costs time.
    gc.disable()
    # A pydantic plugin installed in the serving environment has no business at the wire edge, and
    # looking for one reads the metadata of every distribution there.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from inferlab_adapters.program import main

    return main(import_module(package).ADAPTER)
