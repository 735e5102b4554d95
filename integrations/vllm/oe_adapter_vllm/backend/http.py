"""vLLM's HTTP: one connection pool to one server, and its errors as faults.

Sources (vLLM 0.32.0): entrypoints/serve/engine/protocol.py for the error body, which is
``{"error": {"message", "type", "param", "code"}}``; FastAPI's own routes answer ``{"detail": …}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from inferlab_adapters.openengine.engine import Code, EngineFault

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""For the small questions; a generation has no limit of its own."""

IDLE_SECONDS = 2.0
"""vLLM closes a connection that is idle for 5 (envs.py, VLLM_HTTP_TIMEOUT_KEEP_ALIVE)."""

_MESSAGE_LENGTH = 500
_PARAMETER = re.compile(r"\s*\(parameter=.*\)\s*$", re.DOTALL)
_CODES: Mapping[int, Code] = {
    400: "invalid_argument",
    413: "invalid_argument",
    422: "invalid_argument",
    429: "overloaded",
    503: "overloaded",
}


class ErrorBody(msgspec.Struct):
    """What vLLM says about a refusal."""

    message: str = ""
    type: str | None = None
    param: str | None = None
    code: int | None = None


class _Refusal(msgspec.Struct):
    error: ErrorBody | None = None
    detail: Any = None


_refusal = msgspec.json.Decoder(_Refusal)


class Http:
    """The connections to one vLLM server; made at first use, never through a proxy."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str) -> bytes:
        """The body of a 200 answer."""
        return await self._small("GET", path, None)

    async def post(self, path: str, body: Any, seconds: float | None = ANSWER_SECONDS) -> bytes:
        """The body of a 200 answer to a JSON request; ``seconds`` ``None`` waits for ever."""
        return await self._small("POST", path, body, seconds)

    async def stream(
        self, path: str, body: Any, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """A 200 answer whose body is still to come; the caller closes it."""
        response = await self._open("POST", path, body, headers, None)
        if response.status != 200:
            async with response:
                raise fault(response.status, await _read(response, self.url))
        return response

    async def close(self) -> None:
        """End every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _small(
        self, method: str, path: str, body: Any, seconds: float | None = ANSWER_SECONDS
    ) -> bytes:
        async with await self._open(method, path, body, {}, seconds) as response:
            content = await _read(response, self.url)
            if response.status != 200:
                raise fault(response.status, content)
            return content

    async def _open(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], seconds: float | None
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                trust_env=False,
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
            )
        data = None if body is None else msgspec.json.encode(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        try:
            return await self._session.request(
                method,
                self.url + path,
                data=data,
                headers={**kind, **headers},
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(self.url, error) from error


async def _read(response: aiohttp.ClientResponse, url: str) -> bytes:
    try:
        return await response.read()
    except (aiohttp.ClientError, OSError) as error:
        raise _unreachable(url, error) from error


def _unreachable(url: str, error: BaseException) -> EngineFault:
    why = str(error) or type(error).__name__
    return EngineFault("not_ready", f"vLLM at {url} does not answer: {why}", retryable=True)


def refusal(content: bytes) -> ErrorBody:
    """What an error body says, as well as it can be read."""
    try:
        read = _refusal.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ErrorBody(message=content[:_MESSAGE_LENGTH].decode("utf-8", "replace"))
    if read.error is not None:
        return read.error
    return ErrorBody(message=str(read.detail or ""))


def fault(status: int, content: bytes) -> EngineFault:
    """An HTTP error of vLLM as a fault."""
    return fault_of(status, refusal(content))


def fault_of(status: int, body: ErrorBody) -> EngineFault:
    """A refusal of vLLM as a fault, in one clean sentence."""
    message = sentence(body.message) or f"vLLM answered HTTP {status}"
    if status == 404 and body.param == "model":
        return EngineFault("model_not_found", message)
    if status == 404:
        return EngineFault("not_found", message)
    if status == 403:
        what = "vLLM was started without --enable-scale-out, which opens /inference/v1/generate"
        return EngineFault("failed_precondition", what)
    code = _CODES.get(status, "internal")
    return EngineFault(code, message, retryable=code == "overloaded")


def sentence(message: str) -> str:
    """A message of vLLM on one line, without its trailing ``(parameter=…)``."""
    line = " ".join(_PARAMETER.sub("", message).split())
    return line if len(line) <= _MESSAGE_LENGTH else line[: _MESSAGE_LENGTH - 1] + "…"
