"""vLLM's answers as neutral events, and what is remembered of each output between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from inferlab_adapters.openengine.engine import (
    EngineFault,
    Event,
    FinishedEvent,
    GenerateRequest,
    StopMatch,
    TokenEvent,
    Usage,
)
from oe_adapter_vllm.backend.details import Details
from oe_adapter_vllm.backend.text import OutputText, TokenTexts
from oe_adapter_vllm.backend.wire import Answer, Choice, Counted


@dataclass(slots=True)
class _Output:
    text: OutputText | None = None
    last_id: int = 0
    count: int = 0
    finished: bool = False


class Outputs:
    """The outputs of one request.

    ``open_text`` makes the text of an output where vLLM sends none, that is beside logprobs.
    A matched stop token that shall not stay in the output is neither in the tokens nor in the
    usage: what is counted is what was sent. ``token_ids`` are the prompt's, empty where vLLM is yet
    to make them of its text.
    """

    def __init__(
        self,
        request: GenerateRequest,
        token_ids: Sequence[int],
        texts: TokenTexts,
        open_text: Callable[[], OutputText],
    ) -> None:
        self.request = request
        self._token_ids = token_ids
        self._details_of = Details(request.returned, token_ids, texts)
        self._open_text = open_text
        self._outputs = [_Output() for _ in range(request.sampling.num_sequences)]
        self._unfinished = len(self._outputs)
        self._last: FinishedEvent | None = None
        self._counted: Counted | None = None
        self._dropped = 0
        stopping = request.stopping
        self._stop_ids = frozenset(stopping.stop_token_ids)
        self._include = stopping.include_stop_in_output
        self._details = request.returned.output_logprobs

    @property
    def begun(self) -> bool:
        """Whether any token came."""
        return any(output.count or output.finished for output in self._outputs)

    @property
    def usage(self) -> Usage:
        """The tokens so far; vLLM's own count once it sent one."""
        counted = self._counted
        if counted is None:
            sent = sum(output.count for output in self._outputs)
            return Usage(len(self._token_ids), sent)
        details = counted.prompt_tokens_details
        return Usage(
            counted.prompt_tokens,
            (counted.completion_tokens or 0) - self._dropped,
            details.cached_tokens if details is not None else None,
        )

    def count_unseen(self, counted: Counted | None) -> None:
        """Take vLLM's count of an answer whose tokens nobody is sent."""
        self._counted = counted
        self._dropped = (counted.completion_tokens or 0) if counted is not None else 0

    def last(self) -> Iterable[FinishedEvent]:
        """The last end of an output, which waits for the usage that vLLM sends after it.

        Raises ``internal`` where an output has not ended.
        """
        if self._last is None:
            what = "vLLM ended its answer before every output had ended"
            raise EngineFault("internal", what)
        yield self._last

    @property
    def plain(self) -> bool:
        """Whether :meth:`plain_events` does for every answer."""
        return not (self._details or self.request.returned.prompt_logprobs)

    def plain_events(self, answer: Answer) -> list[Event]:
        """What an answer without logprobs tells, but the very last end."""
        if answer.usage is not None:
            self._counted = answer.usage
        events: list[Event] = []
        for choice in answer.choices:
            if choice.prompt_token_ids is not None:
                self._token_ids = choice.prompt_token_ids
            if self._goes_on(choice):
                self._plain(choice, events)
        return events

    async def events(self, answer: Answer) -> list[Event]:
        """What an answer tells, but the very last end."""
        if answer.usage is not None:
            self._counted = answer.usage
        events: list[Event] = []
        if answer.prompt_logprobs is not None and self.request.returned.prompt_logprobs:
            events.append(await self._details_of.of_prompt(answer.prompt_logprobs))
        for choice in answer.choices:
            if not self._goes_on(choice):
                continue
            if self._details:
                await self._scored(choice, events)
            else:
                self._plain(choice, events)
        return events

    def _goes_on(self, choice: Choice) -> bool:
        return choice.index < len(self._outputs) and not self._outputs[choice.index].finished

    def _plain(self, choice: Choice, events: list[Event]) -> None:
        token_ids = choice.token_ids or []
        output = self._outputs[choice.index]
        if choice.finish_reason is None:
            output.count += len(token_ids)
            if token_ids:
                output.last_id = token_ids[-1]
            events.append(TokenEvent(choice.index, token_ids, choice.text))
            return
        kept = self._ended(choice, token_ids)
        if kept or choice.text:
            events.append(TokenEvent(choice.index, kept, choice.text))
        self._finish(choice, events)

    async def _scored(self, choice: Choice, events: list[Event]) -> None:
        token_ids = choice.token_ids or []
        output = self._outputs[choice.index]
        if output.text is None:
            output.text = self._open_text()
        if choice.finish_reason is None:
            kept = token_ids
            output.count += len(token_ids)
            if token_ids:
                output.last_id = token_ids[-1]
            text, texts = await output.text.add(kept)
        else:
            kept = self._ended(choice, token_ids)
            stop = choice.stop_reason if isinstance(choice.stop_reason, str) else None
            text, texts = await output.text.finish(kept, stop)
        scores = choice.logprobs.content if choice.logprobs is not None else None
        details = await self._details_of.of_tokens(kept, texts, scores or [])
        if kept or text:
            events.append(TokenEvent(choice.index, kept, text, details))
        if choice.finish_reason is not None:
            self._finish(choice, events)

    def _ended(self, choice: Choice, token_ids: list[int]) -> list[int]:
        """The tokens to be sent of the last ones of an output."""
        output = self._outputs[choice.index]
        if token_ids:
            output.last_id = token_ids[-1]
        stopped = choice.finish_reason == "stop" and choice.stop_reason in self._stop_ids
        if stopped and not self._include and token_ids:
            token_ids = token_ids[:-1]
            self._dropped += 1
        output.count += len(token_ids)
        return token_ids

    def _finish(self, choice: Choice, events: list[Event]) -> None:
        output = self._outputs[choice.index]
        output.finished = True
        event = self._finished(choice, output.last_id)
        self._unfinished -= 1
        if self._unfinished:
            events.append(event)
        else:
            self._last = event

    def _finished(self, choice: Choice, last_id: int) -> FinishedEvent:
        index, reason, stop = choice.index, choice.finish_reason, choice.stop_reason
        if reason == "length":
            return FinishedEvent(index, "length")
        if reason == "abort":
            return FinishedEvent(index, "cancelled", None, "vLLM aborted the request")
        if isinstance(stop, str):
            return FinishedEvent(index, "stop", StopMatch("text", text=stop))
        if stop is None:
            return FinishedEvent(index, "stop", StopMatch("eos", token_id=last_id))
        if stop in self._stop_ids:
            return FinishedEvent(index, "stop", StopMatch("token", token_id=stop))
        return FinishedEvent(index, "stop", StopMatch("eos", token_id=stop))
