"""A stand-in for an engine: ``python engine_program.py PORT [OPTION...]``, no imports of ours."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("--exit", type=int, help="end at once with this code")
parser.add_argument("--status", type=int, default=200, help="what it answers")
parser.add_argument("--silent", action="store_true", help="never answer")
parser.add_argument("--mute", action="store_true", help="accept connections, never answer")
parser.add_argument("--ignore-term", action="store_true")
parser.add_argument("--die-with", type=Path, help="end with 7 once this file exists")
parser.add_argument("--ready-with", type=Path, help="answer 503 until this file exists")
parser.add_argument("--stray", type=Path, help="start a helper in another session, its id in here")
parser.add_argument(
    "--deaf-stray", action="store_true", help="it ignores TERM, and forgets the env"
)
parser.add_argument("--show", type=Path, help="write argv, cwd and env here")
parser.add_argument("--registry", type=Path, help="what GET /workers answers")
args, rest = parser.parse_known_args()

if args.show:
    shown = {"argv": rest, "cwd": os.getcwd(), "env": dict(os.environ), "sid": os.getsid(0)}
    args.show.write_text(json.dumps(shown))
if args.ignore_term:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if args.stray:
    deaf = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" if args.deaf_stray else ""
    )
    helper = f"{deaf}print('up', flush=True); import time; time.sleep(600)"
    child = subprocess.Popen(
        [sys.executable, "-ISc", helper],
        start_new_session=True,
        env={} if args.deaf_stray else None,
        stdout=subprocess.PIPE,
    )
    assert child.stdout
    child.stdout.readline()
    args.stray.write_text(str(child.pid))
print(f"engine on port {args.port}", *rest, flush=True)
if args.exit is not None:
    for number in range(30):
        print(f"line {number} of a traceback", flush=True)
    sys.exit(args.exit)
if args.silent:
    time.sleep(600)


def die() -> None:
    while not args.die_with.exists():
        time.sleep(0.02)
    print("engine core died", flush=True)
    os._exit(7)


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if args.mute:
            time.sleep(600)
        ready = args.ready_with is None or args.ready_with.exists()
        body = args.registry.read_bytes() if self.path == "/workers" and args.registry else b"{}"
        self.send_response(args.status if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *unused: object) -> None:
        pass


if args.die_with:
    threading.Thread(target=die, daemon=True).start()
ThreadingHTTPServer(("127.0.0.1", args.port), Answer).serve_forever()
