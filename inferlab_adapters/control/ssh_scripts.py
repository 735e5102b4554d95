"""What runs on a remote machine: constant POSIX sh scripts, their data in positional parameters.

Only sh, the coreutils, grep and ``setsid`` are needed there. Nothing is ever pasted into a script.
"""

from __future__ import annotations

import shlex
from typing import Final

BEGIN: Final = "--oe--"
"""Every call prints this first, because login shells may greet before it."""

_PATH = 'PATH="${1:+$1:}$PATH"; export PATH\n'

PROBLEM: Final = (
    _PATH
    + r"""
exec 2>&1
mkdir -p -- "$2" || exit 0
cd -- "$2" || exit 0
for tool in setsid sha256sum grep "$3"; do
  command -v "$tool" >/dev/null || echo "$tool is not found in $PATH"
done
"""
)
"""Engine bin, working directory, program. Prints what is wrong."""

START: Final = (
    _PATH
    + r"""
exec 2>&1
mkdir -p -- "$2" && cd -- "$2" || exit 126
OE_RUN=$3; export OE_RUN
lead=$4
shift 4
setsid sh -c "$lead" oe "$@"
code=$?
echo "oe: run $OE_RUN: ended with exit code $code"
exit $code
"""
)
"""Engine bin, working directory, run id, LEAD, then its parameters."""

LEAD: Final = r"""
read -r stat </proc/$$/stat
read -r boot </proc/sys/kernel/random/boot_id
start=$(set -f; set -- ${stat##*) }; echo "${20}")
echo "oe: run $OE_RUN: started as process $$ $start $boot"
command -v "$1" >/dev/null || { echo "oe: $1 is not found in $PATH"; exit 127; }
shift
exec env "$@"
"""
"""Program, then variables and the command. Tells who it is (process id, start time, boot id) and
becomes the command: by ``env``, because shells drop variables whose names they could not read."""

PUT: Final = r"""
set -eu
digest() { sha256sum <"$1" | cut -d ' ' -f 1; }
if [ -f "$1" ] && [ "$(digest "$1")" = "$2" ]; then exit 0; fi
folder=${1%/*}
mkdir -p -- "$folder"
new="$folder/.${1##*/}.$3"
trap 'rm -f -- "$new"' EXIT
cat >"$new"
[ "$(digest "$new")" = "$2" ] || { echo "it arrived with another digest" >&2; exit 1; }
sync "$new" 2>/dev/null || sync
mv -f -- "$new" "$1"
sync "$folder" 2>/dev/null || sync
"""
"""Path, digest, a unique word; the text on standard input."""

TABLE: Final = r"""
cat /proc/sys/kernel/random/boot_id
for file in $(grep -lF "OE_RUN=$1" /proc/[0-9]*/environ 2>/dev/null); do
  pid=${file#/proc/}
  pid=${pid%/environ}
  echo "$pid $(tr '\0\n' '  ' 2>/dev/null </proc/"$pid"/cmdline)"
done
echo --
cat /proc/[0-9]*/stat 2>/dev/null
exit 0
"""
"""Run id. Prints the boot id, the marked processes with their commands, ``--``, all stats."""

LISTENING: Final = "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; exit 0"
"""Prints the kernel's tables of TCP sockets."""

SIGNAL: Final = r"""
signal=$1
read -r boot </proc/sys/kernel/random/boot_id
[ "$boot" = "$2" ] || exit 0
shift 2
set -f
for target in "$@"; do
  pid=${target%%:*}
  start=${target#*:}
  read -r stat 2>/dev/null </proc/"$pid"/stat || continue
  now=$(set -- ${stat##*) }; echo "${20}")
  [ "$now" = "$start" ] && kill -s "$signal" -- "$pid" 2>/dev/null
done
exit 0
"""
"""Signal, boot id, then ``pid:start`` of each. Others get nothing."""


def command(script: str, *arguments: str) -> str:
    """One command line for a login shell: every part of it quoted."""
    return shlex.join(["sh", "-c", script, "oe", *arguments])
