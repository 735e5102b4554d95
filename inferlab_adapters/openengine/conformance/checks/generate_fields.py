"""Requests that no server may accept, and ids."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import must_refuse, refuse
from inferlab_adapters.openengine.conformance.checks.models import UNKNOWN
from inferlab_adapters.openengine.conformance.checks.running import Running, becomes
from inferlab_adapters.openengine.conformance.checks.streams import outputs
from inferlab_adapters.openengine.conformance.outcome import Broken, TooFast
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import OK, error_name


@check("R1")
async def id_is_required(s: Subject) -> None:
    await refuse(s, "an empty request_id", {"request_id": ""})


@check("R2")
async def model_is_required(s: Subject) -> None:
    await refuse(s, "an empty model", {"model": ""})
    await refuse(s, "an unknown model", {"model": UNKNOWN})


@check("R3")
async def input_is_required(s: Subject) -> None:
    await refuse(s, "a request without input", {"prompt": None, "token_ids": None})


@check("R4")
async def number_of_sequences(s: Subject) -> None:
    await refuse(s, "num_sequences=0", {"sampling": {"num_sequences": 0}})
    if s.generation.HasField("max_num_sequences"):
        more = s.generation.max_num_sequences + 1
        if more < 1 << 32:
            await refuse(s, f"num_sequences={more}", {"sampling": {"num_sequences": more}})
    if s.decodes:
        call = await s.served()
        indexes = {event.output_index for _, event in outputs(call)}
        if len(indexes) > 1:
            raise Broken(f"num_sequences is absent, and {len(indexes)} outputs came")


@check("R5", needs="decode")
async def ids_in_flight(s: Subject) -> None:
    first = await Running.start(s)
    try:
        again = await s.open(s.plain({"request_id": first.id}), expect="refused")
        await again.next()
        if first.ended:
            raise TooFast
        must_refuse(await again.rest(), "an id that is in flight")
    finally:
        await first.stop()

    async def free() -> bool:
        return (await s.generate(s.plain({"request_id": first.id}))).code is OK

    if not await becomes(s, free):
        raise Broken("an id whose request was cancelled stays taken")


@check("R8")
async def media(s: Subject) -> None:
    image = {"modality": "MODALITY_IMAGE"}
    await refuse(s, "a media item without a source", {"media": [image]})
    if s.model_info.HasField("supports_multimodal") and not s.model_info.supports_multimodal:
        source = {"data_uri": "data:image/png;base64,iVBORw0KGgo="}
        await refuse(s, "media to a model without", {"media": [{**image, **source}]})


@check("R10")
async def kinds_are_said(s: Subject) -> None:
    cases: dict[str, dict[str, Any]] = {
        "a stop condition of no kind": {"stopping": {"conditions": [{}]}},
        "a selection of no kind": {
            "response": {"return_output_logprobs": True, "output_candidates": {}}
        },
    }
    for what, changes in cases.items():
        # A documented default is allowed as well, so that only a failure shows.
        call = await s.generate(s.plain(changes))
        failed = call.error is not None and error_name(call.error) == "ERROR_CODE_INTERNAL"
        if call.ended == "deadline" or failed:
            raise Broken(f"{what} is neither refused nor served: {call.told()}")


@check("R11", needs="decode")
async def zero_is_zero(s: Subject) -> None:
    call = await s.generate(s.plain({"stopping": {"max_tokens": 0}}))
    tokens = sum(len(event.tokens) for name, event in outputs(call) if name == "token")
    if tokens:
        raise Broken(f"max_tokens=0 gave {tokens} tokens")
    texts = []
    for _ in range(4):
        call = await s.served()
        texts.append(
            [
                (event.text, [token.token_id for token in event.tokens])
                for name, event in outputs(call)
                if name == "token"
            ]
        )
    if not any(_joined(a) == _joined(b) for a, b in pairwise(texts)):
        raise Broken("temperature=0 gave four different outputs in four runs")


@check("R12")
async def unknown_adapter(s: Subject) -> None:
    await refuse(s, "an unknown adapter", {"lora_name": "conformance-no-such-adapter"})


@check("G6")
async def whole_validation_first(s: Subject) -> None:
    changes = {
        "sampling": {"temperature": 1.0, "top_p": 0.9, "num_sequences": 0},
        "stopping": {"max_tokens": 4, "conditions": [{"stop_text": "stop"}]},
    }
    call = await s.generate(s.plain(changes), expect="refused")
    if call.messages and call.error is None:
        raise Broken(f"an event came though num_sequences is 0: {call.told()}")


def _joined(parts: list[tuple[str, list[int]]]) -> tuple[str, list[int]]:
    return "".join(text for text, _ in parts), [id for _, ids in parts for id in ids]
