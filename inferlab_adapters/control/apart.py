"""Coroutines in a thread of their own, so that a signal's exception is not raised inside of them.

:meth:`~.signals.Signals.raising` raises wherever the main thread is. Inside of grpc.aio that is
compiled code that takes no exception: seen with grpcio 1.85, the process ends by SIGSEGV, or the
exception is lost and the call goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What ``work()`` returns or raises; it is cancelled, and waited for, where waiting is ended.

    It is called in the thread: a coroutine that a signal keeps from beginning would complain.
    """
    given_up = threading.Event()
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()
    done: Future[T] = Future()

    async def followed() -> T:
        task = asyncio.ensure_future(work())
        running.set_result((asyncio.get_running_loop(), task))
        if given_up.is_set():
            task.cancel()
        return await task

    def run() -> None:
        try:
            done.set_result(asyncio.run(followed()))
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run)
    try:
        # A signal can come before start() has returned: the thread may be there, or still come.
        thread.start()
        return done.result()
    except BaseException:
        given_up.set()
        if running.done() and not done.done():
            loop, task = running.result()
            with suppress(RuntimeError):  # It has just ended.
                loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        if thread.is_alive():
            thread.join()
