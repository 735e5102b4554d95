"""Stands in for an accelerator, on the Python path of a vLLM that has none.

vLLM's Mooncake connector asks PyTorch for the number of the current accelerator
(mooncake_connector.py, 0.32.0), which ends a CPU build; all that it does with it is to set the
device, which a CPU takes. Everything else that runs is vLLM's and Mooncake's own.
"""

import builtins
import sys
from typing import Any

_import = builtins.__import__


def _with_accelerator(name: str, *arguments: Any, **named: Any) -> Any:
    module = _import(name, *arguments, **named)
    accelerator = sys.modules.get("torch.accelerator")
    # The module may still be on its way.
    if hasattr(accelerator, "current_device_index"):
        accelerator.current_device_index = lambda: 0  # type: ignore[union-attr]
        builtins.__import__ = _import
    return module


builtins.__import__ = _with_accelerator
