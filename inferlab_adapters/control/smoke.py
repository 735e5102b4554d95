"""One deployment from start to end: up, asked, reset, profiled, down, and nothing left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from inferlab_adapters.control import eval_client, gpus, smoke_actions
from inferlab_adapters.control.events import Event, Report
from inferlab_adapters.control.leftovers import leftovers
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.refusal import Failed, Refused
from inferlab_adapters.control.run import Running, launched
from inferlab_adapters.control.state import StateRoot
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault
from inferlab_adapters.protocol._v6_clients import EvalClientRequest

ANSWER_SECONDS = 120
"""How long one answer may take; the eval client's four have as much each."""

SETTLE_SECONDS = 20.0
"""How long ports and GPU memory may take to be free after the last process has ended."""

_POLL_SECONDS = 0.5
REPORT_FILE = "report.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a smoke test sends, and how long it waits.

    ``timeout`` and ``grace`` are in seconds: until everything is ready, and from TERM to KILL.
    ``artifacts`` is the folder for requests, answers and the report.
    """

    timeout: float
    grace: float
    prompt: str
    max_tokens: int
    artifacts: Path


@dataclass(kw_only=True, slots=True)
class SmokeReport:
    """What a smoke test found.

    ``ready_seconds`` counts for each replica from its first process' start until its last is
    ready. ``eval`` is an ``EvalClientResult``; ``reset`` and ``profile`` are ``None`` where the
    plan has none. ``exits`` says how each process ended, ``gpu_memory`` the bytes in use on each
    of its GPUs before and after. ``reason`` says first why it did not pass, then the details.
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
    reset: Json | None = None
    profile: Json | None = None
    exits: dict[str, str] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    gpu_memory: dict[str, dict[str, int]] = field(default_factory=dict)
    artifacts: str = ""
    logs: str = ""

    def as_json(self) -> Json:
        return asdict(self)


def smoke(
    prepare: Callable[[Taken], Prepared],
    *,
    root: StateRoot,
    name: str,
    asked: Asked,
    report: Report,
) -> SmokeReport:
    """Run a smoke test; what goes wrong once something was started is in the report.

    ``prepare`` gets what other deployments hold. The report is also written to the artifacts as
    ``report.json``. Raises :class:`Refused` when nothing was started, and
    :class:`~.signals.Interrupted`.
    """
    test = _Test(prepare, root, name, asked, report)
    test.run()
    found = test.found
    text = json.dumps(found.as_json(), indent=2, ensure_ascii=False)
    try:
        (asked.artifacts / REPORT_FILE).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        found.reason.append(f"cannot write {error.filename}: {error.strerror}")
        found.passed = False
    return found


class _Test:
    def __init__(
        self,
        prepare: Callable[[Taken], Prepared],
        root: StateRoot,
        name: str,
        asked: Asked,
        report: Report,
    ) -> None:
        self._deployment = root.deployment(name)
        self._root = root
        self._prepare = prepare
        self._asked = asked
        self._report = report
        self._times: dict[tuple[str, str], float] = {}
        self._prepared: Prepared | None = None
        self._memory_before: dict[int, int] = {}
        self.found = SmokeReport(
            name=name, artifacts=str(asked.artifacts), logs=str(self._deployment.logs)
        )

    def run(self) -> None:
        found, asked, run, running = self.found, self._asked, "", None
        try:
            with launched(
                self._prepared_once,
                root=self._root,
                timeout=asked.timeout,
                grace=asked.grace,
                report=self._hear,
                name=found.name,
            ) as running:
                run = running.run
                self._use(running)
        except Failed as failed:
            found.reason += [failed.message, *failed.details]
        if self._prepared is None:
            return
        if running is not None:
            found.exits = _exits(running)
        elif state := self._deployment.load():
            run = state.run
        found.ready_seconds = dict(self._ready_seconds(self._prepared))
        self._look_for_leftovers(self._prepared, run)
        found.passed = not found.reason

    def _prepared_once(self, taken: Taken) -> Prepared:
        self._prepared = prepared = self._prepare(taken)
        found, identity = self.found, prepared.plan["integration"]
        found.framework = identity["framework"]
        found.framework_version = identity["framework_version"]
        found.notes = list(prepared.notes)
        found.processes = {one["process"]: one["machine"] for one in prepared.allocations}
        try:
            self._asked.artifacts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"cannot make the folder {error.filename}: {error.strerror}"
            raise Refused(Fault("", what, "name another one as --artifacts")) from None
        if self._has_gpus(prepared):
            self._memory_before = gpus.memory_used()
        return prepared

    def _hear(self, event: Event) -> None:
        self._times.setdefault((event.stage, event.process), time.monotonic())
        self._report(event)

    def _use(self, running: Running) -> None:
        """Everything that happens while it is up. Raises :class:`Failed` if a process ends."""
        found, prepared, plan = self.found, running.prepared, running.prepared.plan
        host, port = running.endpoint
        found.endpoint = smoke_actions.url(host, port, "")
        self._note("sending completions and chat, whole and streamed")
        result = eval_client.run(self._eval_request(prepared))
        found.eval = result.model_dump(mode="json")
        running.check()
        if result.status == "failed":
            found.reason.append(result.error or "the eval client failed")
        if action := plan["endpoint"].get("prefix_cache_reset"):
            self._note("resetting the prefix cache")
            found.reset = smoke_actions.call(host, port, action["path"], seconds=ANSWER_SECONDS)
            self._fail_unless_ok("prefix cache reset", found.reset)
        if targets := smoke_actions.capture_targets(plan, prepared.allocations):
            self._note("profiling one more completion")
            path = plan["endpoint"]["completions_path"]
            body = smoke_actions.completion(
                prepared.request["input"]["model"], self._asked.prompt, self._asked.max_tokens
            )
            found.profile = smoke_actions.profile(
                targets, lambda: smoke_actions.call(host, port, path, body, seconds=ANSWER_SECONDS)
            )
            for step, call in smoke_actions.calls(found.profile):
                self._fail_unless_ok(step, call)
        running.check()

    def _fail_unless_ok(self, step: str, call: Json) -> None:
        if not call["ok"]:
            self.found.reason.append(f"{step}: {call['said']}")

    def _note(self, text: str) -> None:
        self._report(Event(stage="note", text=text))

    def _eval_request(self, prepared: Prepared) -> EvalClientRequest:
        host, port = prepared.endpoint
        endpoint, model = prepared.plan["endpoint"], prepared.request["input"]["model"]
        locators = (one["model_locator"] for one in prepared.allocations if "model_locator" in one)
        return EvalClientRequest.model_validate(
            {
                "protocol_version": prepared.request["protocol_version"],
                "workspace_root": str(prepared.wanted.workspace),
                "workspace_source_exclusions": [],
                "endpoint": {
                    "protocol": endpoint["protocol"],
                    "host": host,
                    "port": port,
                    "completions_path": endpoint["completions_path"],
                    "chat_completions_path": endpoint["chat_completions_path"],
                },
                "model": {"locator": next(locators), "served_name": model["served_name"]},
                "definition": {
                    "kind": "openai_smoke",
                    "prompt": self._asked.prompt,
                    "max_tokens": self._asked.max_tokens,
                    "timeout_seconds": ANSWER_SECONDS,
                },
                "case_budget_seconds": float(ANSWER_SECONDS * len(eval_client.PROBES)),
                "artifact_dir": str(self._asked.artifacts),
            }
        )

    def _ready_seconds(self, prepared: Prepared) -> Iterator[tuple[str, float]]:
        for replica in prepared.plan["replicas"]:
            processes = [
                one["process"]
                for one in prepared.allocations
                if (one["role"], one["replica"]) == (replica["role_id"], replica["replica_index"])
            ]
            starts = [self._times.get(("starting", process)) for process in processes]
            ends = [self._times.get(("ready", process)) for process in processes]
            begun = [moment for moment in starts if moment is not None]
            done = [moment for moment in ends if moment is not None]
            if begun and len(done) == len(processes):
                yield replica["id"], round(max(done) - min(begun), 1)

    def _has_gpus(self, prepared: Prepared) -> bool:
        machines = (prepared.machines[one["machine"]] for one in prepared.allocations)
        return any(one.ssh is None and one.devices is not None for one in machines)

    def _look_for_leftovers(self, prepared: Prepared, run: str) -> None:
        found, end = self.found, time.monotonic() + SETTLE_SECONDS
        while True:
            after = self._memory_now()
            found.leftovers = leftovers(prepared, run, before=self._memory_before, after=after)
            if not found.leftovers or time.monotonic() > end:
                break
            time.sleep(_POLL_SECONDS)
        found.gpu_memory = {
            str(device): {"before": self._memory_before[device], "after": after[device]}
            for one in prepared.allocations
            if prepared.machines[one["machine"]].ssh is None
            for device in one["devices"]
            if device in self._memory_before and device in after
        }
        found.reason += [f"left behind: {what}" for what in found.leftovers]

    def _memory_now(self) -> dict[int, int]:
        if not self._memory_before:
            return {}
        try:
            return gpus.memory_used()
        except Refused as refused:
            # A driver that answered before and does not any more was broken by what ran.
            self.found.reason += [line for line in refused.lines() if line not in self.found.reason]
            return {}


def _exits(running: Running) -> dict[str, str]:
    """How each process ended, the last started first."""
    started = reversed(running._supervisor._started.items())
    return {name: how for name, process in started if (how := process.ended())}
