"""Runs a program that ends with its parent: ``exec_with_parent.py PARENT-PID PROGRAM ARGUMENT…``.

This file is a program of its own, for ``python -I -S``: it imports nothing of the package, so that
it starts within milliseconds, and becomes the program. Linux clears the wish with every fork, so
it has to be made in the process itself; made between fork and exec by a thread of the parent it
would not be safe beside gRPC's threads.
"""

import os
import signal
import sys
from errno import ENOENT

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Become the program; returns, as ``env`` does, 127 where it is missing and 126 where it
    cannot be run."""
    # An interrupt meant for the program ends this one without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            return _failed(os.strerror(ctypes.get_errno()), 126)
    # The parent may have ended before the wish was made.
    if os.getppid() != parent:
        return 128 + signal.SIGKILL
    # Python ignores these for itself; a program expects what a shell would have given it.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        return _failed(error.strerror or str(error), 127 if error.errno == ENOENT else 126)


def _failed(why: str, code: int) -> int:
    sys.stderr.write(f"openengine: {sys.argv[2]!r} cannot be started: {why}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
