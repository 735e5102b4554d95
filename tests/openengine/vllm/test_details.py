"""Logprobs, and the text beside them."""

from __future__ import annotations

from typing import Any

import pytest

from inferlab_adapters.openengine.engine import (
    Candidate,
    PromptEvent,
    Returned,
    Selection,
    StopMatch,
    Stopping,
    TokenDetail,
    TokenEvent,
    Usage,
)
from tests.openengine.vllm.asked import asking, backend, told
from tests.openengine.vllm.fake_server import DONE, apart, chunk, in_one, run, usage


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(100 + ord(character) for character in text)


def scored(token_id: int, *others: tuple[int, float, int | None], rank: int | None = 1) -> Any:
    first = {"token_id": token_id, "logprob": -0.5, "rank": rank}
    top = [{"token_id": i, "logprob": p, "rank": r} for i, p, r in others]
    return {"content": [{**first, "top_logprobs": [first, *top]}]}


def test_only_the_best_n_are_told_though_one_more_was_asked_for() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            a, b, c = ids_of("abc")
            worst = scored(c, (a, -0.1, 1), (b, -0.2, 2), rank=9)
            best = scored(a, (b, -0.2, 2), (c, -0.9, 3))
            server.answers.append(
                apart(
                    [
                        chunk(0, (c,), logprobs=worst),
                        chunk(0, (a,), logprobs=best, end="length"),
                        usage(3, 2),
                        DONE,
                    ]
                )
            )
            wanted = Selection(mode="top_n", top_n=2)
            returned = Returned(output_logprobs=True, output_candidates=wanted)
            events, _ = await told(engine, asking(returned=returned))
            assert events[0] == TokenEvent(
                0,
                [c],
                "c",
                [
                    TokenDetail(
                        c, "c", -0.5, 9, (Candidate(a, -0.1, "a", 1), Candidate(b, -0.2, "b", 2))
                    )
                ],
            )
            second = events[1]
            assert isinstance(second, TokenEvent)
            assert second.details is not None
            assert [found.token_id for found in second.details[0].candidates] == [a, b]
            (body,) = server.bodies("generate")
            assert (body["output_mode"], body["sampling_params"]["logprobs"]) == ("tokens", 3)

    run(test)


def test_candidates_by_id_come_in_the_order_asked_for_and_without_their_false_ranks() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            a, b, c = ids_of("abc")
            answer = scored(b, (a, -0.1, 1), (c, -3.0, 3), rank=2)
            server.answers.append(
                [chunk(0, (b,), logprobs=answer, end="length"), usage(3, 1), DONE]
            )
            wanted = Selection(mode="token_ids", token_ids=(c, b, a))
            returned = Returned(output_logprobs=True, output_candidates=wanted)
            events, _ = await told(engine, asking(returned=returned))
            (event, _) = events
            assert isinstance(event, TokenEvent)
            assert event.details is not None
            (detail,) = event.details
            assert detail.rank is None
            assert [(found.token_id, found.rank) for found in detail.candidates] == [
                (c, None),
                (b, None),
                (a, None),
            ]
            sampling = server.bodies("generate")[0]["sampling_params"]
            assert (sampling["logprob_token_ids"], sampling["logprobs"]) == ([c, b, a, a], 4)

    run(test)


@pytest.mark.parametrize("piled", [False, True])
@pytest.mark.parametrize(("keep", "shown"), [(False, "one é"), (True, "one éST")])
def test_a_stop_text_never_leaks_and_no_character_is_split(
    keep: bool, shown: str, piled: bool
) -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            pieces = [ids_of("one "), (400,), (401,), ids_of("S"), ids_of("TU")]
            lines: list[Any] = []
            for number, ids in enumerate(pieces):
                scores = {"content": [{"token_id": i, "logprob": -1.0, "rank": 1} for i in ids]}
                last = number == len(pieces) - 1
                end = {"end": "stop", "stop_reason": "ST"} if last else {}
                lines.append(chunk(0, ids, logprobs=scores, **end))
            lines += [usage(3, 9), DONE]
            server.answers.append([in_one(lines)] if piled else apart(lines))
            stopping = Stopping(stop_texts=("ST", "?????"), include_stop_in_output=keep)
            returned = Returned(output_logprobs=True)
            events, counted = await told(engine, asking(stopping=stopping, returned=returned))
            tokens = [event for event in events if isinstance(event, TokenEvent)]
            texts = [event.text for event in tokens]
            assert "".join(texts) == shown
            if piled:
                assert len(texts) == 1
            elif not keep:
                assert texts[:4] == ["", "", "o", "n"]
            assert events[-1].stop == StopMatch("text", text="ST")  # type: ignore[union-attr]
            assert counted == Usage(3, 9, 0)
            details = [d for event in tokens for d in event.details or ()]
            assert [d.token_id for d in details] == [i for ids in pieces for i in ids]
            assert details[0].text == "o"

    run(test)


def test_prompt_logprobs_come_first_and_from_where_they_are_wanted() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            prompt = ids_of("xyz")
            rows: list[Any] = [None]
            for token_id in prompt[1:]:
                other = {"logprob": -0.1, "rank": 1, "decoded_token": "q"}
                own = {"logprob": -6.5, "rank": 108, "decoded_token": "!"}
                rows.append({str(token_id): own, "44": other})
            choice = {"index": 0, "finish_reason": "length", "token_ids": [7], "text": "ok"}
            whole = {"choices": [choice], **usage(3, 1), "prompt_logprobs": rows}
            for start in (0, 1):
                server.answers.append((200, {**whole, "choices": [choice]}))
                wanted = Selection(mode="top_n", top_n=1)
                returned = Returned(
                    prompt_logprobs=True, prompt_candidates=wanted, prompt_start=start
                )
                events, counted = await told(engine, asking(prompt, returned=returned))
                first = events[0]
                assert isinstance(first, PromptEvent)
                expected = [TokenDetail(prompt[0], "x")] + [
                    TokenDetail(i, text, -6.5, 108, (Candidate(44, -0.1, "q", 1),))
                    for i, text in zip(prompt[1:], "yz", strict=True)
                ]
                assert list(first.tokens) == expected[start:]
                assert events[1] == TokenEvent(0, [7], "ok")
                assert counted == Usage(3, 1, 0)
            assert server.bodies("generate")[0]["stream"] is False

    run(test)
