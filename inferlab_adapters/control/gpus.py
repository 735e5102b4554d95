"""The NVIDIA GPUs of this machine, as the driver's management library (NVML) tells.

GPUs are numbered as NVML and ``nvidia-smi`` number them: in PCI bus order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.errors import Fault


def present() -> tuple[int, ...]:
    """The numbers of this machine's GPUs; none where there is no NVIDIA driver.

    Raises :class:`Refused` when there is a driver and it answers with an error.
    """
    with _nvml() as nvml:
        return () if nvml is None else tuple(range(nvml.nvmlDeviceGetCount()))


def memory_used() -> dict[int, int]:
    """Bytes of memory in use on each GPU, by whatever process; empty where there is no driver.

    Raises :class:`Refused` when there is a driver and it answers with an error.
    """
    with _nvml() as nvml:
        if nvml is None:
            return {}
        return {
            index: int(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(index)).used)
            for index in range(nvml.nvmlDeviceGetCount())
        }


@contextmanager
def _nvml() -> Iterator[Any]:
    """The library, started; ``None`` without a driver."""
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        hint = "pip install 'inferlab-adapters[cli]'"
        raise Refused(Fault("", "reading GPUs needs the package nvidia-ml-py", hint)) from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        no_driver = nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED
        if error.value not in no_driver:
            raise _refusal(error) from error
        yield None
        return
    try:
        yield nvml
    except nvml.NVMLError as error:
        raise _refusal(error) from error
    finally:
        nvml.nvmlShutdown()


def _refusal(error: Exception) -> Refused:
    hint = "see whether nvidia-smi works, or write an inventory that names devices"
    return Refused(Fault("", f"the NVIDIA driver does not tell its GPUs: {error}", hint))
