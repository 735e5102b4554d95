"""Logprobs and guided decoding of the vLLM backend on a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from inferlab_adapters.openengine.engine import (
    Guide,
    PromptEvent,
    Returned,
    Sampling,
    Selection,
    Stopping,
    Usage,
)
from tests.smoke.openengine_vllm_support import (
    CONSUMER,
    GREEDY,
    VOCABULARY,
    Servers,
    asking,
    check,
    refused,
    told,
)


@check
async def output_logprobs(servers: Servers) -> None:
    async with servers.engine() as engine:
        plain = await told(engine, asking(count=6))
        hot = Sampling(temperature=2.0, seed=3)
        for sampling in (GREEDY, hot):
            for top in (1, 5, 19):
                selection = Selection(mode="top_n", top_n=top)
                returned = Returned(output_logprobs=True, output_candidates=selection)
                seen = await told(engine, asking(count=6, sampling=sampling, returned=returned))
                assert seen.usage == Usage(4, 6, 0)
                if sampling is GREEDY:
                    assert (seen.ids(), seen.text()) == (plain.ids(), plain.text())
                for event in seen.tokens():
                    assert [d.token_id for d in event.details or ()] == list(event.token_ids)
                    for detail in event.details or ():
                        ranks = [candidate.rank for candidate in detail.candidates]
                        assert ranks == list(range(1, top + 1)), detail
                        assert detail.logprob is not None
                        assert detail.logprob <= 0
                        assert sampling is hot or detail.rank == 1
        ids = (5, 288, 7)
        selection = Selection(mode="token_ids", token_ids=ids)
        returned = Returned(output_logprobs=True, output_candidates=selection)
        for sampling in (GREEDY, hot):
            seen = await told(engine, asking(count=4, sampling=sampling, returned=returned))
            for event in seen.tokens():
                for detail in event.details or ():
                    assert tuple(c.token_id for c in detail.candidates) == ids
        bare = Returned(output_logprobs=True)
        seen = await told(engine, asking(count=3, returned=bare))
        details = [d for event in seen.tokens() for d in event.details or ()]
        assert [d.text for d in details] == [" o", " b", "\b"]
        assert all(not d.candidates and d.rank == 1 for d in details)
        many = Returned(output_logprobs=True, output_candidates=Selection(mode="top_n", top_n=20))
        assert (await refused(engine, asking(returned=many))).code == "invalid_argument"
    async with servers.engine(port=CONSUMER) as engine:
        everything = Selection(mode="all")
        returned = Returned(
            output_logprobs=True,
            output_candidates=everything,
            prompt_logprobs=True,
            prompt_candidates=everything,
        )
        seen = await told(engine, asking(count=2, returned=returned))
        prompt = seen.events[0]
        assert isinstance(prompt, PromptEvent)
        rows = [d.candidates for d in prompt.tokens[1:]]
        rows += [d.candidates for e in seen.tokens() for d in e.details or ()]
        for row in rows:
            assert {candidate.token_id for candidate in row} == set(range(VOCABULARY))


@check
async def prompt_logprobs(servers: Servers) -> None:
    async with servers.engine(port=CONSUMER) as engine:
        selection = Selection(mode="top_n", top_n=2)
        for start in (0, 2):
            returned = Returned(
                prompt_logprobs=True, prompt_candidates=selection, prompt_start=start
            )
            seen = await told(engine, asking(count=6, returned=returned))
            prompt = seen.events[0]
            assert isinstance(prompt, PromptEvent)
            assert [t.token_id for t in prompt.tokens] == [10, 20, 30, 40][start:]
            assert [t.text for t in prompt.tokens] == ["(", "2", "<", "F"][start:]
            if not start:
                first = prompt.tokens[0]
                assert (first.logprob, first.rank, first.candidates) == (None, None, ())
            for token in prompt.tokens[1:]:
                assert token.logprob is not None
                assert [c.rank for c in token.candidates] == [1, 2]
            assert seen.text() == " o b\b\N{REPLACEMENT CHARACTER}ener th"
            assert seen.usage == Usage(4, 6, 0)
        both = Returned(prompt_logprobs=True, output_logprobs=True)
        seen = await told(engine, asking(count=6, returned=both))
        assert seen.text() == " o b\b\N{REPLACEMENT CHARACTER}ener th"
        by_id = Selection(mode="token_ids", token_ids=(1,))
        wanted = Returned(prompt_logprobs=True, prompt_candidates=by_id)
        assert (await refused(engine, asking(returned=wanted))).code == "unsupported_feature"


@check
async def guides(servers: Servers) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]}
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "hi"}}
    wanted: list[tuple[Guide, Callable[[str], Any]]] = [
        (Guide(mode="regex", text="[ab]{3}"), re.compile("[ab]{3}").fullmatch),
        (Guide(mode="ebnf_grammar", text='root ::= "x" | "y"'), re.compile("x|y").fullmatch),
        (Guide(mode="choice", choices=("yes", "no")), re.compile("yes|no").fullmatch),
        (Guide(mode="structural_tag", text=json.dumps(tag)), re.compile("hi").fullmatch),
        (Guide(mode="json_object"), lambda text: json.loads(text) == {}),
        (
            Guide(mode="json_schema", text=json.dumps({**schema, "additionalProperties": False})),
            lambda text: json.loads(text) == {"a": "x"},
        ),
    ]
    async with servers.engine() as engine:
        for guide, fits in wanted:
            # A random model likes white space: it must not have room for it.
            sampling = Sampling(temperature=1.0, seed=4)
            for seed in range(20):
                sampling = replace(sampling, seed=seed)
                stopping = Stopping(max_tokens=100)
                seen = await told(engine, asking(guide=guide, sampling=sampling, stopping=stopping))
                if seen.ends()[0].reason == "stop":
                    break
            if guide.mode == "json_object":
                assert isinstance(json.loads(seen.text()), dict)
            else:
                assert fits(seen.text()), (guide, seen.text())
        for bad in (
            Guide(mode="json_schema", text="{not json"),
            Guide(mode="regex", text="[a"),
            Guide(mode="ebnf_grammar", text="root ::= ("),
            Guide(mode="structural_tag", text="{}"),
            Guide(mode="choice"),
            Guide(mode="json_schema"),
        ):
            assert (await refused(engine, asking(guide=bad))).code == "invalid_argument"
        why = await refused(engine, asking(guide=Guide(mode="json_object", backend="xgrammar")))
        assert why.code == "unsupported_feature"
