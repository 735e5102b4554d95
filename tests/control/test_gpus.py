"""GPUs as NVML tells them: a fake library, and the one that is here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from inferlab_adapters.control import gpus
from inferlab_adapters.control.refusal import Refused

NO_LIBRARY, NO_DRIVER, NO_PERMISSION, LOST = 12, 9, 4, 15


class FakeError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeNvml:
    """Two calls deep: what the library answers, and how often it was started and stopped."""

    NVMLError = FakeError
    NVML_ERROR_LIBRARY_NOT_FOUND = NO_LIBRARY
    NVML_ERROR_DRIVER_NOT_LOADED = NO_DRIVER

    def __init__(self, used: list[int], *, start: int = 0, ask: int = 0) -> None:
        self.used = used
        self.start = start
        self.ask = ask
        self.running = 0

    def nvmlInit(self) -> None:
        if self.start:
            raise FakeError(self.start)
        self.running += 1

    def nvmlShutdown(self) -> None:
        self.running -= 1

    def nvmlDeviceGetCount(self) -> int:
        assert self.running == 1
        if self.ask:
            raise FakeError(self.ask)
        return len(self.used)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return ("handle", index)

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        name, index = handle
        assert name == "handle"
        return SimpleNamespace(used=self.used[index], total=80 << 30)


def inject(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml | None) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake)


def test_the_gpus_and_the_memory_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml([5 << 20, 70 << 30])
    inject(monkeypatch, fake)
    assert gpus.present() == (0, 1)
    assert gpus.memory_used() == {0: 5 << 20, 1: 70 << 30}
    assert fake.running == 0


@pytest.mark.parametrize("start", [NO_LIBRARY, NO_DRIVER])
def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    inject(monkeypatch, FakeNvml([1, 2], start=start))
    assert gpus.present() == ()
    assert gpus.memory_used() == {}


def test_a_driver_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, FakeNvml([]))
    assert gpus.present() == ()
    assert gpus.memory_used() == {}


@pytest.mark.parametrize(("start", "ask"), [(NO_PERMISSION, 0), (0, LOST)])
def test_a_driver_that_fails_is_refused(
    monkeypatch: pytest.MonkeyPatch, start: int, ask: int
) -> None:
    fake = FakeNvml([1], start=start, ask=ask)
    inject(monkeypatch, fake)
    for question in (gpus.present, gpus.memory_used):
        with pytest.raises(Refused, match=f"error {start or ask}; see whether nvidia-smi works"):
            question()
    assert fake.running == 0


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, None)
    with pytest.raises(Refused, match=r"needs the package nvidia-ml-py; pip install"):
        gpus.present()


def test_the_real_library() -> None:
    listed = 0
    if shutil.which("nvidia-smi"):
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
        lines = answer.stdout.splitlines() if answer.returncode == 0 else []
        listed = sum(line.startswith("GPU ") for line in lines)
    assert len(gpus.present()) == listed
    assert sorted(gpus.memory_used()) == list(range(listed))
