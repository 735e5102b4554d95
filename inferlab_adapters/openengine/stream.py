"""The events of one accepted request, as messages, up to the one ending of its stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from inferlab_adapters.openengine.engine import (
    EngineFault,
    Event,
    FinishedEvent,
    GenerateRequest,
    Generation,
    PromptEvent,
    TokenEvent,
)
from inferlab_adapters.openengine.errors import unexpected
from inferlab_adapters.openengine.registry import Entry
from inferlab_adapters.openengine.responses import (
    Responses,
    output_head,
    response_head,
    token_response,
)
from inferlab_adapters.openengine.state import ServerState

Write = Callable[[bytes], Awaitable[None]]


class Stream:
    """The events of one accepted request, checked and written; ends with just one ending."""

    def __init__(
        self,
        state: ServerState,
        responses: Responses,
        request: GenerateRequest,
        entry: Entry,
        generation: Generation,
    ) -> None:
        self._state = state
        self._responses = responses
        self._request = request
        self._entry = entry
        self._generation = generation
        self._count = request.sampling.num_sequences
        self._heads: dict[int, bytes] = {}
        self._finished: set[int] = set()
        self._prompted = self._begun = self._ended = False

    async def run(self, write: Write) -> None:
        """Write the stream to its end. What ``write`` raises says that the client is gone."""
        try:
            ending = await self._events(write)
        except EngineFault as fault:
            ending = await self._failed(fault)
        for message in ending:
            await write(message)

    async def _events(self, write: Write) -> tuple[bytes, ...]:
        """Write all events but the last, which is returned: its request is in flight no more."""
        entry = self._entry
        head = response_head(self._request.request_id)
        heads = self._heads
        following = aiter(self._generation).__anext__
        while True:
            entry.waiting = True
            try:
                event = await following()
                entry.waiting = False
                if type(event) is TokenEvent and event.details is None:
                    start = heads.get(event.output) or self._begin(event.output)
                    message = token_response(head, start, event.token_ids, event.text)
                else:
                    message = self._message(event)
                    if self._ended:
                        return (message,)
            except EngineFault:
                raise
            except StopAsyncIteration:
                raise _broken("ended its work before every output was finished") from None
            except asyncio.CancelledError as error:
                raise interruption(entry, error) from None
            except Exception as error:
                raise unexpected(error) from error
            finally:
                entry.waiting = False
            if message:
                await write(message)
                self._begun = True
            if entry.fault is not None:
                raise entry.fault

    def _message(self, event: Event) -> bytes:
        """The message of an event that is no plain token; empty where nobody asked for it."""
        request, responses = self._request, self._responses
        if isinstance(event, TokenEvent):
            self._begin(event.output)
            details = event.details or ()
            return responses.tokens(request.request_id, event.output, details, event.text)
        if isinstance(event, FinishedEvent):
            self._begin(event.output)
            self._heads.pop(event.output, None)
            self._finished.add(event.output)
            last = len(self._finished) == self._count
            usage = self._generation.usage if last else None
            message = responses.finished(request.request_id, event, usage)
            if last:
                self._end()
            return message
        if isinstance(event, PromptEvent):
            if self._begun or self._prompted:
                raise _broken("gave the prompt twice, or late")
            self._prompted = True
            if not request.returned.prompt_logprobs:
                return b""
            first = request.returned.prompt_start
            return responses.prompt(request.request_id, event.tokens, first)
        if not request.prefill_only:
            raise _broken("ended a normal request as a prefill")
        sealed = self._state.seal.seal(event.session, request.model)
        message = responses.prefill_ready(request.request_id, sealed, self._generation.usage)
        self._state.issued.add(event.session)
        self._end()
        return message

    def _begin(self, output: int) -> bytes:
        """The head of an output's messages, if it may have any."""
        if self._request.prefill_only:
            raise _broken("decoded on a prefill server")
        if not 0 <= output < self._count or output in self._finished:
            raise _broken(f"gave more of output {output}, which is finished or was never asked for")
        head = self._heads[output] = output_head(output)
        return head

    def _end(self) -> None:
        """Nothing can change the ending any more: an abort from now on comes too late."""
        self._ended = True
        self._state.registry.finish(self._entry)

    async def _failed(self, fault: EngineFault) -> tuple[bytes, ...]:
        """The ending of a request that failed or was aborted, once the engine has let go of it."""
        await self._state.registry.close(self._generation)
        self._end()
        request_id = self._request.request_id
        try:
            usage = self._generation.usage
        except Exception as error:
            unexpected(error)
            usage = None
        aborted = fault is self._entry.fault and fault.code == "cancelled"
        if not aborted or self._request.prefill_only:
            return (self._responses.error(request_id, fault, usage),)
        left = [output for output in range(self._count) if output not in self._finished]
        return tuple(
            self._responses.finished(
                request_id,
                FinishedEvent(output, "cancelled", None, fault.message),
                usage if output == left[-1] else None,
            )
            for output in left
        )


def interruption(entry: Entry, error: asyncio.CancelledError) -> BaseException:
    """Why the engine was not waited for: our abort, a client that left, or its own doing."""
    if entry.interrupted:
        entry.interrupted = False
        entry.task.uncancel()
        if entry.fault is not None and not entry.task.cancelling():
            return entry.fault
    # gRPC leaves a client hanging whose handler is cancelled by anybody but gRPC.
    return error if entry.task.cancelling() else unexpected(error)


def _broken(what: str) -> EngineFault:
    return EngineFault("internal", f"the engine {what}")
