"""Environment variables of a rendered process: what we set, and what a person may add."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inferlab_adapters.errors import Faults, pointer, shown
from inferlab_adapters.ownership import CACHE, DEVICES

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_DEVICES = f"{DEVICES}; the control plane sets it"

DEVICE_VARIABLES: Mapping[str, str] = {
    "CUDA_VISIBLE_DEVICES": _DEVICES,
    "NVIDIA_VISIBLE_DEVICES": _DEVICES,
    "HIP_VISIBLE_DEVICES": _DEVICES,
    "ROCR_VISIBLE_DEVICES": _DEVICES,
    "GPU_DEVICE_ORDINAL": _DEVICES,
    "ZE_AFFINITY_MASK": _DEVICES,
    "ASCEND_RT_VISIBLE_DEVICES": _DEVICES,
    "PWD": "the control plane, which chooses the working directory",
}
"""Variables that a control plane sets itself, by the thing that owns each."""

_CACHE_FOLDERS = {
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TRITON_CACHE_DIR": "triton",
}

CACHE_VARIABLES: Mapping[str, str] = dict.fromkeys(_CACHE_FOLDERS, CACHE)


def cache_environment(cache: str, folders: Mapping[str, str]) -> dict[str, str]:
    """JIT and kernel caches below an allocation's cache root.

    ``folders`` adds the framework's own variables to those that every engine's libraries
    read: variable name to folder name.
    """
    root = cache.rstrip("/")
    return {name: f"{root}/{folder}" for name, folder in {**_CACHE_FOLDERS, **folders}.items()}


def check_extra_env(
    value: Any, where: str, owned: Mapping[str, str], prefixes: Mapping[str, str], faults: Faults
) -> None:
    """Check the setting ``extra_env``: names, text values, and nothing that is owned.

    ``owned`` maps a variable to what decides it, ``prefixes`` the beginning of one.
    """
    if not isinstance(value, dict):
        faults.add(where, f"must be an object of strings, got {shown(value)}")
        return
    for name, text in value.items():
        at = pointer(where, name)
        if not _NAME.fullmatch(name):
            faults.add(at, "is not a name of an environment variable")
        elif not isinstance(text, str):
            faults.add(at, f"must be a string, got {shown(text)}", f"write {shown(str(text))}")
        elif "\0" in text:
            faults.add(at, "must not contain a NUL character")
        owner = owned.get(name) or next(
            (who for start, who in prefixes.items() if name.startswith(start)), None
        )
        if owner:
            faults.add(at, f"is decided by {owner}", "remove it")
