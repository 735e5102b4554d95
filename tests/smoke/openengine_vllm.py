"""Two real vLLM servers, a producer and a consumer over NIXL, and the backend's checks on them.

``python -m tests.smoke.openengine_vllm FOLDER``: in a network namespace of its own, starts both,
runs every check of the modules below, and writes ``FOLDER/results.json``: the checks' names to ""
or to what went wrong.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.openengine.vllm.tiny_lora import write_adapter
from tests.smoke import (
    openengine_vllm_checks,
    openengine_vllm_detail_checks,
    openengine_vllm_more_checks,
)
from tests.smoke.made import made
from tests.smoke.openengine_vllm_support import CHECKS, CONSUMER, PRODUCER, Servers
from tests.support.engines import ENGINES, TINY_MODEL

MODULES = (openengine_vllm_checks, openengine_vllm_detail_checks, openengine_vllm_more_checks)
"""Importing them fills CHECKS."""

READY_SECONDS = 420
CHECK_SECONDS = 120

_COMMON = (
    "--served-model-name tiny tiny-alias --host 127.0.0.1 --dtype bfloat16 --max-model-len 256 "
    "--enforce-eager --kv-cache-memory-bytes 67108864 --block-size 32 --enable-scale-out "
    "--enable-prompt-tokens-details --scheduling-policy priority"
)
_TRANSFER = '{"kv_connector":"NixlConnector","kv_role":"%s","kv_buffer_device":"cpu"}'
_EVENTS = (
    '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557",'
    '"replay_endpoint":"tcp://*:5558","topic":"kv-events"}'
)


def command(port: int, folder: Path) -> list[str]:
    """The command line of a server; the producer also has what one server alone can have."""
    words = ["vllm", "serve", str(TINY_MODEL), *_COMMON.split(), "--port", str(port)]
    if port == PRODUCER:
        words += ["--enable-lora", "--max-lora-rank", "8", "--kv-events-config", _EVENTS]
        words += ["--lora-modules", f"own={write_adapter(folder / 'own')}"]
        return [*words, "--kv-transfer-config", _TRANSFER % "kv_producer"]
    return [*words, "--max-logprobs", "-1", "--kv-transfer-config", _TRANSFER % "kv_consumer"]


def environment(port: int) -> dict[str, str]:
    """What the servers need to run on CPUs, here."""
    return {
        **os.environ,
        "PATH": f"{ENGINES / 'vllm' / 'bin'}:{os.environ['PATH']}",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "UCX_NET_DEVICES": "lo",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(port - 2000),
    }


@contextmanager
def running(folder: Path) -> Iterator[Servers]:
    """Both servers, ready; their logs are in the folder."""
    processes: list[subprocess.Popen[bytes]] = []
    started: dict[int, tuple[Sequence[str], Mapping[str, str]]] = {}
    try:
        for port in (PRODUCER, CONSUMER):
            argv, env = command(port, folder), environment(port)
            started[port] = (argv, env)
            with (folder / f"{port}.log").open("wb") as log:
                processes.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log))
        for port, process in zip((PRODUCER, CONSUMER), processes, strict=True):
            _wait(port, process, folder / f"{port}.log")
        yield Servers(started, folder)
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(60)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(READY_SECONDS):
        if process.poll() is not None:
            break
        try:
            with opener.open(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise SystemExit(f"no server on {port}: {log.read_text(errors='replace')[-3000:]}")


def main() -> None:
    folder = Path(sys.argv[1])
    with running(folder) as servers:
        told = made(CHECKS, servers, CHECK_SECONDS)
    (folder / "results.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
