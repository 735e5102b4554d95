"""An engine and its server as real processes: how they start, live and end together."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import grpc
import pytest

from inferlab_adapters.openengine.client import Client
from tests.openengine.served import PATIENCE, fake_child, gone, serve, until

REQUEST = {"request_id": "r", "model": "scripted", "prompt": "hello"}
ENDLESS = {**REQUEST, "prompt": "endless"}


async def _generate(client: Client) -> tuple[grpc.StatusCode, list[str]]:
    outcome = await client.outcome("Generate", REQUEST, timeout=PATIENCE)
    return outcome.code, [message.WhichOneof("event") for message in outcome.messages]


def test_it_answers_before_the_engine_does_and_passes_signals_on(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    options = ("--ready-with", str(ready), "--say", "several words; $HOME")
    with serve(tmp_path, engine=options, environment={"FAKE_CHILD": "marked"}) as served:
        assert served.health() == "HEALTH_STATE_STARTING"
        assert served.ask(_generate) == (grpc.StatusCode.UNAVAILABLE, [])
        child = served.child()
        assert os.getpgid(child) == child == served.record("engine started")["pid"]
        ready.touch()
        served.record("engine state", state="ready")
        assert served.health() == "HEALTH_STATE_READY"
        code, events = served.ask(_generate)
        assert (code, events[-1]) == (grpc.StatusCode.OK, "finished")
        passed_on = ["SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT"]
        for name in passed_on:
            served.send(signal.Signals[name])
            until(lambda: served.read("signals").endswith(f"{name}\n"))  # noqa: B023
        assert served.read("signals").split() == passed_on
        assert served.process.poll() is None
        served.send(signal.SIGTERM)
        assert served.code() == 5
        assert served.read("signals").split()[-1] == "SIGTERM"
        served.record("engine state", state="draining")
        assert served.process.stdout
        # The engine's own output, and nothing else; its words were read by no shell.
        expected = "engine says hello several words; $HOME marked\n"
        assert served.process.stdout.read() == expected


def test_an_engine_that_does_not_end_is_killed_with_all_its_group(tmp_path: Path) -> None:
    options = ("--ignore-term", "--stray")
    with serve(tmp_path, "--grace", "0.3", engine=options) as served:
        served.child()
        served.send(signal.SIGTERM)
        assert served.code() == 128 + signal.SIGKILL
        assert served.read("signals").split() == ["SIGTERM"]
        served.record("engine did not end in time and is killed")
        stray = int(served.read("stray"))
        until(lambda: gone(stray))


def test_the_engine_dies_with_its_supervisor(tmp_path: Path) -> None:
    with serve(tmp_path, engine=("--ignore-term",)) as served:
        child = served.child()
        served.send(signal.SIGKILL)
        served.code()
        until(lambda: gone(child))


def test_a_stream_ends_once_when_the_engine_dies_and_health_lingers(tmp_path: Path) -> None:
    die = tmp_path / "die"
    options = ("--die-with", str(die), "--stray")

    async def stream(client: Client) -> tuple[grpc.StatusCode, list[str], str]:
        call: Any = client.stream("Generate", ENDLESS, timeout=PATIENCE)
        events = []
        async for message in call:
            events.append(message.WhichOneof("event"))
            die.touch()
        refused = await client.outcome("Generate", REQUEST, timeout=PATIENCE)
        assert refused.messages == ()
        return await call.code(), events, refused.code.name

    with serve(tmp_path, "--linger", "60", engine=options) as served:
        served.record("engine state", state="ready")
        code, events, refused = served.ask(stream)
        assert (code, refused) == (grpc.StatusCode.OK, "UNAVAILABLE")
        assert events.count("error") == 1
        assert events[-1] == "error"
        reason = "the engine ended with exit code 7"
        served.record("engine state", state="not_ready", reason=reason)
        assert served.health() == "HEALTH_STATE_NOT_READY"
        stray = int(served.read("stray"))
        until(lambda: gone(stray))
        served.send(signal.SIGTERM)
        assert served.code() == 7


def test_the_exit_code_of_an_engine_that_ends_at_once_is_returned(tmp_path: Path) -> None:
    with serve(tmp_path, engine=("--exit", "9")) as served:
        assert served.code() == 9
        assert served.record("engine ended by itself")["exit_code"] == 9


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
def test_a_taken_port_is_told_before_the_engine_starts(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with serve(tmp_path, option, address) as served:
            assert served.code() == 3
            sentence = f"openengine: {option}: cannot listen on {address}: Address already in use"
            assert served.lines[-1] == sentence
            assert not (tmp_path / "pid").exists()
            assert served.process.stdout
            assert served.process.stdout.read() == ""


def test_attached_it_outlives_the_engine_and_finds_it_again(tmp_path: Path) -> None:
    with serve(tmp_path, engine=None) as served:
        assert served.health() == "HEALTH_STATE_STARTING"
        with fake_child(tmp_path) as engine:
            served.becomes("READY")
        served.becomes("NOT_READY")
        with fake_child(tmp_path) as engine:
            served.becomes("READY")
            assert served.ask(_generate)[0] is grpc.StatusCode.OK
            served.send(signal.SIGINT)
            assert served.code() == 0
            # The engine is another's: it hears of nothing.
            assert engine.poll() is None
            assert served.read("signals") == ""
