"""What is asked of vLLM for a neutral request, and what is refused before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from oe_adapter_vllm.backend.sampling import body, prefill_body

from inferlab_adapters.openengine.engine import (
    Abilities,
    EngineFault,
    GenerateRequest,
    Guide,
    KvSession,
    LogprobAbility,
    ModelFacts,
    Returned,
    Sampling,
    Selection,
    SelectionMode,
    Stopping,
)

_TOP: tuple[SelectionMode, ...] = ("top_n", "token_ids")
MODEL = ModelFacts(
    model_id="m",
    served_name="tiny",
    max_context_length=256,
    vocabulary=512,
    abilities=Abilities(
        prompt_logprobs=LogprobAbility(supported=True, selections=("top_n",), max_top_n=20),
        output_logprobs=LogprobAbility(supported=True, selections=_TOP, max_top_n=19),
    ),
)


def asked(prompt: Any = (1, 2, 3), **fields: Any) -> dict[str, Any]:
    request = GenerateRequest(request_id="r", model="tiny", prompt=None, token_ids=prompt, **fields)
    return body(request, prompt, MODEL, "e")


def test_what_is_not_said_is_left_to_vllm() -> None:
    assert asked() == {
        "request_id": "e",
        "model": "tiny",
        "token_ids": [1, 2, 3],
        "sampling_params": {},
        "output_mode": "text",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_all_sampling_and_stopping_options() -> None:
    sampling = Sampling(
        temperature=0.0,
        top_p=0.5,
        top_k=0,
        min_p=0.0,
        frequency_penalty=-1.0,
        presence_penalty=0.0,
        repetition_penalty=1.5,
        seed=2**64 - 1,
        num_sequences=2,
    )
    stopping = Stopping(
        max_tokens=0,
        min_tokens=0,
        stop_texts=("a", "b"),
        stop_token_ids=(0, 511),
        ignore_eos=True,
        include_stop_in_output=True,
    )
    said = asked(
        sampling=sampling,
        stopping=stopping,
        bypass_prefix_cache=True,
        cache_salt="s",
        priority=-3,
        lora_name="l",
    )
    assert said["sampling_params"] == {
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 0,
        "min_p": 0.0,
        "frequency_penalty": -1.0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.5,
        "seed": 2**64 - 1,
        "n": 2,
        "max_tokens": 0,
        "min_tokens": 0,
        "stop": ["a", "b"],
        "stop_token_ids": [0, 511],
        "ignore_eos": True,
        "include_stop_str_in_output": True,
        "skip_reading_prefix_cache": True,
    }
    assert (said["cache_salt"], said["priority"], said["model"]) == ("s", 3, "l")


def test_min_tokens_alone_leaves_room_for_all_that_fits() -> None:
    said = asked(stopping=Stopping(min_tokens=20))["sampling_params"]
    assert said == {"min_tokens": 20, "max_tokens": 253}


@pytest.mark.parametrize(
    ("guide", "said"),
    [
        (Guide(mode="json_schema", text="{}"), {"json": "{}"}),
        (Guide(mode="regex", text=""), {"regex": ""}),
        (Guide(mode="ebnf_grammar", text="g"), {"grammar": "g"}),
        (Guide(mode="structural_tag", text="{}"), {"structural_tag": "{}"}),
        (Guide(mode="choice", choices=("a", "b")), {"choice": ["a", "b"]}),
        (Guide(mode="json_object"), {"json_object": True}),
    ],
)
def test_guides(guide: Guide, said: dict[str, Any]) -> None:
    assert asked(guide=guide)["sampling_params"] == {"structured_outputs": said}


def test_logprobs() -> None:
    both = Returned(
        prompt_logprobs=True,
        prompt_candidates=Selection(mode="top_n", top_n=20),
        output_logprobs=True,
        output_candidates=Selection(mode="top_n", top_n=19),
    )
    said = asked(returned=both)
    assert said["sampling_params"] == {"prompt_logprobs": 20, "logprobs": 20}
    assert (said["stream"], said["output_mode"]) == (False, "tokens")
    bare = asked(returned=Returned(output_logprobs=True))
    assert bare["sampling_params"] == {"logprobs": 0}


_BY_ID = Selection(mode="token_ids", token_ids=(1,))
_SESSION = KvSession(session_id="s", transfer_backend="nixl")


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"prompt": ()}, "invalid_argument", "no tokens"),
        ({"prompt": (1, 512)}, "invalid_argument", "token id 512 in the prompt"),
        ({"prompt": (1, -1)}, "invalid_argument", "token id -1"),
        ({"prompt": (1,) * 256}, "invalid_argument", "256 tokens"),
        ({"stopping": Stopping(stop_token_ids=(512,))}, "invalid_argument", "stop tokens"),
        ({"sampling": Sampling(top_p=float("inf"))}, "invalid_argument", "top_p"),
        (
            {"sampling": Sampling(num_sequences=2), "session": _SESSION},
            "invalid_argument",
            "num_sequences",
        ),
        ({"guide": Guide(mode="regex", text="a", backend="x")}, "unsupported_feature", "'x'"),
        ({"guide": Guide(mode="json_schema", text=" ")}, "invalid_argument", "empty"),
        (
            {"returned": Returned(prompt_logprobs=True, prompt_candidates=_BY_ID)},
            "unsupported_feature",
            "by token id",
        ),
        (
            {
                "returned": Returned(
                    output_logprobs=True,
                    output_candidates=Selection(mode="token_ids", token_ids=tuple(range(20))),
                )
            },
            "invalid_argument",
            "1 to 19 ids",
        ),
        (
            {
                "returned": Returned(
                    output_logprobs=True, output_candidates=Selection(mode="top_n", top_n=20)
                )
            },
            "invalid_argument",
            "at most 19",
        ),
    ],
)
def test_refusals(fields: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(EngineFault) as seen:
        asked(**fields)
    assert seen.value.code == code
    assert words in seen.value.message


def test_a_prefill_is_one_token_that_ends_by_its_length() -> None:
    request = GenerateRequest(
        request_id="r",
        model="tiny",
        prompt=None,
        token_ids=(1,),
        cache_salt="s",
        priority=1,
        stopping=Stopping(max_tokens=9, stop_token_ids=(1,)),
    )
    said = prefill_body(request, (1,), MODEL, "e")
    assert said["sampling_params"] == {"max_tokens": 1, "ignore_eos": True, "temperature": 0.0}
    assert (said["cache_salt"], said["priority"]) == ("s", -1)
    assert "stream" not in said
    # A guide is vLLM's to check before decode is asked the same.
    guided = prefill_body(replace(request, guide=Guide(mode="regex", text="[")), (1,), MODEL, "e")
    assert guided["sampling_params"]["structured_outputs"] == {"regex": "["}
