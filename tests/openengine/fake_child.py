"""A program that stands in for an engine: HTTP health, signals it notes down, and ways to fail."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path, help="where it writes: port, pid, signals, stray")
parser.add_argument("--ready-with", type=Path, help="healthy once this file exists")
parser.add_argument("--die-with", type=Path, help="exit with 7 once this file exists")
parser.add_argument("--exit", type=int, help="exit with this code at once")
parser.add_argument("--ignore-term", action="store_true")
parser.add_argument("--stray", action="store_true", help="leave a process in the group behind")
parser.add_argument("--say", default="")
args = parser.parse_args()


def put(name: str, text: str) -> None:
    new = args.folder / f".{name}"
    new.write_text(text)
    new.rename(args.folder / name)


def noted(number: int, frame: FrameType | None) -> None:
    with open(args.folder / "signals", "a") as file:
        file.write(f"{signal.Signals(number).name}\n")
    if number == signal.SIGTERM and not args.ignore_term:
        os._exit(5)


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
               signal.SIGUSR1, signal.SIGUSR2):  # fmt: skip
    signal.signal(number, noted)
print("engine says hello", args.say, os.environ.get("FAKE_CHILD", ""), flush=True)
if args.exit is not None:
    sys.exit(args.exit)
if args.stray:
    stray = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    put("stray", str(stray.pid))


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ready = args.ready_with is None or args.ready_with.exists()
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *unused: object) -> None:
        pass


def die() -> None:
    while not args.die_with.exists():
        time.sleep(0.01)
    os._exit(7)


if args.die_with:
    threading.Thread(target=die, daemon=True).start()
server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
put("pid", str(os.getpid()))
put("port", str(server.server_port))
server.serve_forever()
