"""What a smoke test is told, and what it found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from inferlab_adapters.control.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a smoke test sends, and how long it waits.

    ``timeout`` and ``grace`` are in seconds: until everything is ready, and from TERM to KILL.
    ``artifacts`` is the folder for requests, answers and the report. ``openengine`` false leaves
    OpenEngine out, although replicas speak it.
    """

    timeout: float
    grace: float
    prompt: str
    max_tokens: int
    artifacts: Path
    openengine: bool = True


@dataclass(kw_only=True, slots=True)
class SmokeReport:
    """What a smoke test found.

    ``ready_seconds`` counts for each replica from its first process' start until its last is
    ready. ``eval`` is an ``EvalClientResult``; ``reset`` and ``profile`` are ``None`` where the
    plan has none, ``openengine`` where no replica speaks it or nobody asked. ``exits`` says how
    each process ended, ``gpu_memory`` the bytes in use on each of its GPUs before and after.
    ``reason`` says first why it did not pass, then the details.
    """

    name: str
    framework: str = ""
    framework_version: str = ""
    passed: bool = False
    reason: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    endpoint: str = ""
    processes: dict[str, str] = field(default_factory=dict)
    ready_seconds: dict[str, float] = field(default_factory=dict)
    eval: Json | None = None
    openengine: Json | None = None
    reset: Json | None = None
    profile: Json | None = None
    exits: dict[str, str] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    gpu_memory: dict[str, dict[str, int]] = field(default_factory=dict)
    artifacts: str = ""
    logs: str = ""

    def as_json(self) -> Json:
        return asdict(self)
