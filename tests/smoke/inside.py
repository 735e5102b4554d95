"""Runs a command inside namespaces of its own, and tells what it left behind there.

``python -m tests.smoke.inside FILE [--address ADDRESS]... -- COMMAND...``: gives the loopback the
addresses, runs the command, writes the command lines of all processes that are left to FILE as a
JSON list, and ends with the command's exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def left_running() -> list[str]:
    """What is still there a while after the command ended."""
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


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--address", action="append", default=[])
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    for address in asked.address:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    code = subprocess.run(asked.command).returncode
    asked.file.write_text(json.dumps(left_running()), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
