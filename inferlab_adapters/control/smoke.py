"""One deployment from start to end: up, asked, reset, profiled, down, and nothing left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

from inferlab_adapters.control import eval_client, gpus, smoke_actions, smoke_openengine
from inferlab_adapters.control.events import Event, Report
from inferlab_adapters.control.leftovers import leftovers
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.refusal import Failed, Refused
from inferlab_adapters.control.run import Running, launched
from inferlab_adapters.control.smoke_actions import ANSWER_SECONDS
from inferlab_adapters.control.smoke_report import Asked, SmokeReport
from inferlab_adapters.control.state import StateRoot
from inferlab_adapters.control.supervisor import NOT_ENDED
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault

SETTLE_SECONDS = 20.0
"""How long ports and GPU memory may take to be free after the last process has ended."""

_POLL_SECONDS = 0.5
REPORT_FILE = "report.json"


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
            found.exits = running.exits
            exits = found.exits.items()
            found.reason += [f"{name} {how}" for name, how in exits if how == NOT_ENDED]
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
        if speakers := smoke_openengine.speakers(prepared):
            if self._asked.openengine:
                smoke_openengine.refuse_without_grpc()
                found.notes += smoke_openengine.notes(speakers)
            else:
                found.notes.append("OpenEngine is left out, though the deployment speaks it")
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
        result = eval_client.run(smoke_actions.eval_request(prepared, self._asked))
        found.eval = result.model_dump(mode="json")
        running.check()
        if result.status == "failed":
            found.reason.append(result.error or "the eval client failed")
        self._ask_openengine(prepared)
        running.check()
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

    def _ask_openengine(self, prepared: Prepared) -> None:
        speakers = smoke_openengine.speakers(prepared)
        if not speakers or not self._asked.openengine:
            return
        self._note("asking over OpenEngine")
        model = prepared.request["input"]["model"]["served_name"]
        found, wrong = smoke_openengine.check(speakers, model=model, prompt=self._asked.prompt)
        self.found.openengine = found
        self.found.reason += wrong

    def _fail_unless_ok(self, step: str, call: Json) -> None:
        if not call["ok"]:
            self.found.reason.append(f"{step}: {call['said']}")

    def _note(self, text: str) -> None:
        self._report(Event(stage="note", text=text))

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
