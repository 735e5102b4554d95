"""Embeddings."""

from __future__ import annotations

import math

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import INVALID, must_refuse
from inferlab_adapters.openengine.conformance.checks.tasks import EMBED, ask, done, need, rows
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Proto, enum_name

_GRANULARITY, _ENCODING = "TASK_OUTPUT_GRANULARITY", "EMBEDDING_ENCODING"
_UNIT = 1e-2


@check("E1", needs="tasks")
async def options(s: Subject) -> None:
    said = need(s, EMBED)
    for name in ("SEQUENCE", "TOKEN"):
        wanted = {"granularity": f"{_GRANULARITY}_{name}"}
        number = s.wire.revision.enum("TaskOutputGranularity").Value(f"{_GRANULARITY}_{name}")
        call = await ask(s, EMBED, {"options": wanted})
        if call.ok:
            for output in call.reply.outputs:
                if output.granularity != number:
                    raise Broken(f"{name} was asked for, came {enum_name(output, 'granularity')}")
        elif number in said.granularities:
            raise Broken(f"the granularity {name} is advertised: {call.told()}")


@check("E2", needs="tasks")
async def dimensions(s: Subject) -> None:
    said = need(s, EMBED)
    call = await ask(s, EMBED, {"options": {"dimensions": 0}}, expect="refused")
    must_refuse(call, "dimensions=0", INVALID)
    if not said.HasField("dimension"):
        raise Skip("the model's own dimension is not reported")
    more = said.dimension + 1
    call = await ask(s, EMBED, {"options": {"dimensions": more}}, expect="refused")
    must_refuse(call, f"dimensions={more}, of a model with {said.dimension},")


@check("E3", needs="tasks")
async def shapes(s: Subject) -> None:
    for output in (await done(s, EMBED)).outputs:
        ranks = 2 if enum_name(output, "granularity") == f"{_GRANULARITY}_TOKEN" else 1
        shape = list(_tensor(output).shape)
        if len(shape) != ranks:
            raise Broken(f"{enum_name(output, 'granularity')} has the shape {shape}")


@check("E4", needs="tasks")
async def token_ids(s: Subject) -> None:
    for output in (await done(s, EMBED)).outputs:
        if output.token_ids and len(output.token_ids) != rows(output):
            raise Broken(f"{len(output.token_ids)} token_ids and {rows(output)} rows")


@check("E5", needs="tasks")
async def normalized(s: Subject) -> None:
    if not need(s, EMBED).supports_normalization:
        raise Skip("normalization is not advertised")
    for output in (await done(s, EMBED, {"options": {"normalize": True}})).outputs:
        values = list(_tensor(output).values)
        count = rows(output) if len(_tensor(output).shape) > 1 else 1
        length = math.sqrt(math.fsum(value * value for value in values) / max(count, 1))
        if abs(length - 1) > _UNIT:
            raise Broken(f"a normalized embedding has the length {length:.4f}")


@check("E6", needs="tasks")
async def encodings(s: Subject) -> None:
    said = need(s, EMBED)
    enum = s.wire.revision.enum("EmbeddingEncoding")
    for name in ("DENSE", "SPARSE"):
        call = await ask(s, EMBED, {"options": {"encoding": f"{_ENCODING}_{name}"}})
        arms = {o.WhichOneof("embedding") for o in call.reply.outputs} if call.ok else set()
        if call.ok and arms != {name.lower()}:
            raise Broken(f"{name} was asked for, came {sorted(map(str, arms))}")
        if not call.ok and enum.Value(f"{_ENCODING}_{name}") in said.encodings:
            raise Broken(f"the encoding {name} is advertised: {call.told()}")


@check("M9", needs="tasks")
async def dimension(s: Subject) -> None:
    said = need(s, EMBED)
    if not said.HasField("dimension"):
        raise Skip("embed.dimension is not reported")
    for output in (await done(s, EMBED)).outputs:
        shape = list(_tensor(output).shape)
        if shape[-1:] != [said.dimension]:
            raise Broken(f"dimension is {said.dimension}, and a shape {shape}")


def _tensor(output: Proto) -> Proto:
    return getattr(output, output.WhichOneof("embedding") or "dense")
