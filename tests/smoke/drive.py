"""Launch a deployment on this machine and use it: the control plane of the smoke tests.

Run in namespaces of its own (network and processes), where only what it started exists:
``python -m tests.smoke.drive ADAPTER REQUEST RANKS ENGINE_BIN MODEL FOLDER``, where ADAPTER is a
module, and RANKS says over how many processes each replica is spread. It plans and renders through
the adapter's program, starts every process as rendered, waits for the planned readiness, completes
a prompt on each endpoint path, stops everything, and prints a JSON report.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    check_plan,
    check_render,
    output,
    render_request,
)

READY_SECONDS = 420
ANSWER_SECONDS = 120
STOP_SECONDS = 60
PROMPTS: dict[str, Json] = {
    "completions_path": {"prompt": "hello world"},
    "chat_completions_path": {"messages": [{"role": "user", "content": "hello"}]},
}


def ask_program(adapter: str, request: Json) -> Json:
    """One request through the adapter as a program."""
    done = subprocess.run(
        [sys.executable, "-m", adapter],
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return output(json.loads(done.stdout))


class Processes:
    """The launched processes, each with a log of its own, in launch order."""

    def __init__(self, folder: Path, engine_bin: Path) -> None:
        self._folder = folder
        self._path = f"{engine_bin}:{os.environ['PATH']}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Json) -> None:
        env = {"PATH": self._path, "HOME": str(self._folder), **command["env"]}
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command["argv"], env=env, cwd=self._folder, stdout=log, stderr=log
            )

    def check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                tail = (self._folder / f"{name}.log").read_text(errors="replace")[-3000:]
                raise SystemExit(f"{name} ended with {process.returncode}:\n{tail}")

    def stop(self) -> dict[str, int]:
        """Ask each to stop, the last started first; their exit codes."""
        codes = {}
        for name, process in reversed(self._running.items()):
            process.send_signal(signal.SIGTERM)
            codes[name] = process.wait(STOP_SECONDS)
        return codes


def call(url: str, body: Any = None, seconds: float = 5, method: str | None = None) -> Any:
    """An HTTP call; the answer as JSON where it is JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=seconds) as response:
        text = response.read()
    return json.loads(text) if text.startswith(b"{") else None


def wait_ready(url: str, processes: Processes) -> float:
    """Seconds until a GET of ``url`` succeeds."""
    start = time.monotonic()
    while time.monotonic() - start < READY_SECONDS:
        processes.check()
        try:
            call(url)
            return round(time.monotonic() - start, 1)
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)
    raise SystemExit(f"{url} was not ready in {READY_SECONDS} s")


def left_running() -> list[str]:
    """What is still there a while after the servers ended; helpers of theirs end on their own."""
    for _ in range(20):
        if not others_alive():
            return []
        time.sleep(0.5)
    return others_alive()


def others_alive() -> list[str]:
    """Command lines of all other processes in this process namespace, zombies left out."""
    alive = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (1, os.getpid()):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if command:
                alive.append(command)
    return alive


def drive(
    adapter: str, request: Json, ranks: int, engine_bin: Path, model: str, folder: Path
) -> Json:
    plan = ask_program(adapter, request)
    check_plan(request, plan, plan["integration"]["framework"])
    placement = Placement(
        ranks={role["id"]: ranks for role in request["input"]["roles"]},
        hosts=lambda index: "127.0.0.1",
        together=True,
        model_locator=model,
    )
    allocations = allocate(plan, placement)
    for allocation in allocations:
        allocation["cache"] = str(folder / "cache" / allocation["process"])
    rendered = ask_program(adapter, render_request(request, plan, allocations))
    check_render(plan, allocations, rendered)
    report: Json = {"ready_seconds": {}, "answer_seconds": {}, "texts": {}}
    processes = Processes(folder, engine_bin)
    bases = {
        replica["id"]: f"http://127.0.0.1:{allocation['endpoint']['port']}"
        for replica in plan["replicas"]
        for allocation in allocations
        if (allocation["role"], allocation["replica"], allocation["rank"])
        == (replica["role_id"], replica["replica_index"], 0)
    }
    for process in rendered["processes"]:
        processes.start(process["process"], process["command"])
    for replica in plan["replicas"]:
        path = replica["primary_readiness"]["path"]
        report["ready_seconds"][replica["id"]] = wait_ready(bases[replica["id"]] + path, processes)
    public = bases["router" if "router" in bases else "server"]
    for name, fields in PROMPTS.items():
        body: Json = {"model": request["input"]["model"]["served_name"], "max_tokens": 8, **fields}
        begin = time.monotonic()
        answer = call(public + plan["endpoint"][name], {**body, "temperature": 0}, ANSWER_SECONDS)
        report["answer_seconds"][name] = round(time.monotonic() - begin, 2)
        choice = answer["choices"][0]
        report["texts"][name] = choice.get("text") or choice["message"]["content"]
    reset = plan["endpoint"].get("prefix_cache_reset")
    if reset:
        report["reset"] = call(public + reset["path"], method=reset["method"].upper())
    report["exit_codes"] = processes.stop()
    report["left_running"] = left_running()
    return report


def main() -> None:
    adapter, request, ranks, engine_bin, model, folder = sys.argv[1:]
    report = drive(
        adapter,
        json.loads(Path(request).read_text(encoding="utf-8")),
        int(ranks),
        Path(engine_bin),
        model,
        Path(folder),
    )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
