"""A request that vLLM works on: its answer, streamed or whole, as neutral events.

Source (vLLM 0.32.0): entrypoints/scale_out/token_in_token_out/serving.py. Seen on a running
server:

- A stream is server-sent events of one choice each, then a usage chunk, then ``[DONE]``; a failure
  is a line ``{"error": …}`` before ``[DONE]``, also where the request itself was refused.
- ``stop_reason`` is the stop text or the stop token; it is null at the model's end token, whose id
  is the last of ``token_ids``. Other end tokens of the generation config count as stop tokens.
- A matched stop token is always in ``token_ids`` and in ``usage``; its text only if included.
- An aborted output ends with ``finish_reason`` "abort", in a stream and in a whole answer.
- Closing the connection ends the work; so does ``POST /inference/v1/abort_requests``, which takes
  the id with the prefix ``generate-tokens-``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec

from inferlab_adapters.openengine.engine import (
    EngineFault,
    Event,
    GenerateRequest,
    Usage,
)
from oe_adapter_vllm.backend import completions
from oe_adapter_vllm.backend.events import Outputs
from oe_adapter_vllm.backend.http import Http, fault_of
from oe_adapter_vllm.backend.together import together
from oe_adapter_vllm.backend.wire import Answer, decode_answer

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"

SETTLE_SECONDS = 1.0
"""How long a refusal may take: vLLM checks a request at once, before any of its work."""

_ABORT_SECONDS = 5.0
_DATA = b"data: "
_DONE = b"[DONE]"


class Work:
    """One request at vLLM; what streams and whole answers share. Used by one task at a time."""

    path = GENERATE
    engine_id = "generate-tokens-{}"
    """What vLLM makes of the request id that it is given."""

    def __init__(
        self, http: Http, body: dict[str, Any], headers: Mapping[str, str], outputs: Outputs
    ) -> None:
        self._http = http
        self._body = body
        self._headers = headers
        self._outputs = outputs
        self._next: asyncio.Future[Any] | None = None
        self._finished = False
        self._closed = False

    @property
    def request(self) -> GenerateRequest:
        """What was asked for."""
        return self._outputs.request

    @property
    def closed(self) -> bool:
        """Whether nothing is to come any more."""
        return self._finished or self._closed

    @property
    def usage(self) -> Usage:
        """The tokens so far."""
        return self._outputs.usage

    async def begin(self) -> None:
        """Send the request; raises vLLM's refusal, which comes at once or not at all."""
        try:
            await self._begin()
        except BaseException:
            await self.close()
            raise

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _settle(self, first: asyncio.Future[Any]) -> Any:
        """The first answer, if it comes soon; raises what is a refusal and no failure."""
        self._next = first
        await asyncio.wait({first}, timeout=SETTLE_SECONDS)
        if not first.done():
            return None
        error = first.exception()
        if isinstance(error, EngineFault) and error.code == "internal":
            return None  # The work began, so that whoever reads on learns of it.
        return first.result()

    async def close(self) -> None:
        """End the work at vLLM, unless it is done."""
        if self._closed:
            return
        self._closed = True
        pending, self._next = self._next, None
        if pending is not None:
            pending.cancel()
            with suppress(asyncio.CancelledError, EngineFault):
                await pending
        self._hang_up()
        if not self._finished:
            ids = {"request_ids": [self.engine_id.format(self._body["request_id"])]}
            with suppress(EngineFault):
                await self._http.post(ABORT, ids, _ABORT_SECONDS)

    def _hang_up(self) -> None:
        pass

    def _end(self) -> None:
        self._finished = True
        self._hang_up()

    def _failure(self, error: EngineFault) -> EngineFault:
        if self._closed:
            return EngineFault("cancelled", "the request was aborted")
        self._end()
        if error.code == "internal" and self.request.session and not self._outputs.begun:
            what = f"vLLM failed while it fetched the KV session: {error.message}"
            return EngineFault("kv_transfer_failed", what)
        return error


class Streamed(Work):
    """An answer that comes token by token."""

    _response: aiohttp.ClientResponse | None = None
    _rest = b""

    async def _begin(self) -> None:
        self._response = await self._http.stream(self.path, self._body, self._headers)
        first: asyncio.Future[list[Answer]] = asyncio.ensure_future(self._read())
        for answer in await self._settle(first) or ():
            if answer.error is None:
                continue
            refused = fault_of(answer.error.code or 500, answer.error)
            if refused.code != "internal":
                raise refused

    async def __aiter__(self) -> AsyncIterator[Event]:
        outputs = self._outputs
        while self._next is not None or not self._finished:
            if self._closed:
                raise self._failure(EngineFault("cancelled", ""))
            try:
                # close() cancels the first read, and cuts the connection under a later one.
                answers = await (self._read() if self._next is None else self._next)
            except EngineFault as error:
                raise self._failure(error) from error
            except asyncio.CancelledError:
                if self._closed:
                    raise self._failure(EngineFault("cancelled", "")) from None
                raise
            self._next = None
            for answer in together(answers):
                if answer.error is not None:
                    raise self._failure(fault_of(answer.error.code or 500, answer.error))
                if outputs.plain:
                    events = outputs.plain_events(answer)
                else:
                    events = await outputs.events(answer)
                for event in events:
                    yield event
        for event in outputs.last():
            yield event

    async def _read(self) -> list[Answer]:
        """The next answers; marks the end. Waits until there is one."""
        response = self._response
        assert response is not None
        while True:
            try:
                data = await response.content.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise EngineFault("internal", "vLLM broke off its answer") from error
            if not data:
                raise EngineFault("internal", "vLLM ended its answer before its end")
            *lines, self._rest = (self._rest + data).split(b"\n\n")
            answers = self._decoded(lines)
            if answers or self._finished:
                return answers

    def _decoded(self, lines: Sequence[bytes]) -> list[Answer]:
        answers = []
        for line in lines:
            if not line.startswith(_DATA):
                continue
            if line[len(_DATA) :] == _DONE:
                self._end()
                break
            answers.append(_answer(line[len(_DATA) :]))
        return answers

    def _hang_up(self) -> None:
        if self._response is not None and self._finished:
            self._response.release()
        elif self._response is not None:
            self._response.close()


class Completed(Streamed):
    """An answer of ``/v1/completions``."""

    path = completions.PATH
    engine_id = "cmpl-{}-0"


class Whole(Work):
    """An answer that comes at once: with prompt logprobs, which streams do not carry."""

    async def _begin(self) -> None:
        await self._settle(asyncio.ensure_future(self._ask()))

    async def answer(self) -> Answer:
        """vLLM's answer; at most once."""
        assert self._next is not None or self._closed
        try:
            if self._next is None:
                raise EngineFault("cancelled", "")
            answer: Answer = await self._next
        except EngineFault as error:
            raise self._failure(error) from error
        except asyncio.CancelledError:
            if self._closed:
                raise self._failure(EngineFault("cancelled", "")) from None
            raise
        self._next = None
        self._end()
        return answer

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in await self._outputs.events(await self.answer()):
            yield event
        for event in self._outputs.last():
            yield event

    async def _ask(self) -> Answer:
        response = await self._http.stream(self.path, self._body, self._headers)
        async with response:
            try:
                return _answer(await response.read())
            except (aiohttp.ClientError, OSError) as error:
                raise EngineFault("internal", "vLLM broke off its answer") from error


def _answer(data: bytes) -> Answer:
    try:
        return decode_answer(data)
    except msgspec.MsgspecError as error:
        raise EngineFault("internal", f"vLLM sent an answer of another shape: {error}") from error
