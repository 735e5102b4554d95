"""One HTTP POST to a server, read as it arrives, and the server-sent events in an answer.

``http.client`` knows no proxies, so none stands between: what is measured and what fails is the
server itself.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from inferlab_adapters.addresses import url_host

MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer beyond which it is not read further."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A whole answer.

    ``seconds`` is the time from before the connection until the last byte. ``arrivals`` says for
    each piece of the body how long the body was then, in bytes, and after how many seconds.
    """

    status: int
    content_type: str
    body: bytes
    seconds: float
    arrivals: tuple[tuple[int, float], ...]

    @property
    def ok(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    def seconds_until(self, end: int) -> float:
        """When the first ``end`` bytes of the body were there."""
        return self.arrivals[bisect_left(self.arrivals, (end, 0.0))][1]

    def __str__(self) -> str:
        """Status and beginning of the body in one line."""
        return f"HTTP {self.status}{beginning(self.body, ', ')}"


class NoReply(Exception):
    """No whole answer came: why, what of the body had come, and whether time ran out."""

    def __init__(self, why: str, *, body: bytes = b"", timed_out: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.body = body
        self.timed_out = timed_out


def beginning(body: bytes, before: str = "", characters: int = 300) -> str:
    """The first characters of a body on one line, ``before`` in front; empty for an empty one."""
    text = body[: 4 * characters].decode("utf-8", "replace")[:characters].strip()
    shown = "".join(c if c.isprintable() else " " for c in text)
    return f"{before}{shown}" if shown else ""


def post(host: str, port: int, path: str, body: bytes = b"", *, seconds: float) -> Reply:
    """POST a body of JSON and read the answer, all within ``seconds``.

    Raises :class:`NoReply` when no connection was made, it broke off, or time ran out.
    """
    begin = time.monotonic()
    url = f"http://{url_host(host)}:{port}{path}"
    if seconds <= 0:
        raise NoReply(f"no time was left to ask {url}", timed_out=True)
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    expired = threading.Event()
    pieces: list[bytes] = []
    arrivals: list[tuple[int, float]] = []
    try:
        connection.connect()
        with _Deadline(connection.sock, begin + seconds, expired):
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            with connection.getresponse() as response:
                length = 0
                while piece := response.read1(65536):
                    length += len(piece)
                    pieces.append(piece)
                    arrivals.append((length, time.monotonic() - begin))
                    if length > MAX_BODY:
                        raise _Broken(f"answered more than {MAX_BODY} bytes")
                if response.length:
                    raise http.client.IncompleteRead(b"")
            if expired.is_set():
                raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError) as error:
        timed_out = expired.is_set() or isinstance(error, TimeoutError)
        why = f"did not answer within {seconds:g} s" if timed_out else _why(error)
        raise NoReply(f"{url} {why}", body=b"".join(pieces), timed_out=timed_out) from None
    finally:
        connection.close()
    return Reply(
        status=response.status,
        content_type=response.headers.get_content_type(),
        body=b"".join(pieces),
        seconds=time.monotonic() - begin,
        arrivals=tuple(arrivals),
    )


def events(body: bytes) -> Iterator[tuple[int, str]]:
    """The data of every server-sent event, with the offset in the body where the event ends.

    Comments and fields other than ``data`` are passed over. What follows the last empty line is no
    event. Raises :class:`UnicodeDecodeError`.
    """
    data: list[str] = []
    end = 0
    for raw in body.splitlines(keepends=True):
        end += len(raw)
        line = raw.rstrip(b"\r\n").decode("utf-8")
        if raw[-1:] not in (b"\r", b"\n"):
            return
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield end, "\n".join(data)
            data = []


class _Broken(http.client.HTTPException):
    """The server breaks the protocol; the text continues a sentence about it."""


class _Deadline:
    """Cuts a connection at a point of monotonic time: a timeout of the socket would begin anew
    with every byte of a slow answer."""

    def __init__(self, sock: socket.socket, end: float, expired: threading.Event) -> None:
        self._sock = sock
        self._expired = expired
        self._timer = threading.Timer(max(0.0, end - time.monotonic()), self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()

    def _cut(self) -> None:
        self._expired.set()
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the server was faster


def _why(error: Exception) -> str:
    if isinstance(error, _Broken):
        return str(error)
    if isinstance(error, http.client.IncompleteRead):
        return "closed the connection in the middle of its answer"
    if isinstance(error, http.client.RemoteDisconnected):
        return "closed the connection without an answer"
    if isinstance(error, http.client.BadStatusLine):
        return f"does not speak HTTP: {beginning(str(error).encode())}"
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    return f"cannot be asked: {type(error).__name__}: {error}"
