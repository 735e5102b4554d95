"""The bytes that are written by hand are those of the messages."""

from __future__ import annotations

import pytest

from inferlab_adapters.openengine.engine import EngineFault
from inferlab_adapters.openengine.responses import output_head, response_head, token_response
from inferlab_adapters.openengine.revisions import Revision
from tests.openengine.serving import BOTH


@pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
@pytest.mark.parametrize("output", [0, 1, 200])
@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ((), ""),
        ((0,), ""),
        ((1, 127, 128, 2**14, 2**32 - 1), "é" * 100),
        (tuple(range(3000)), "x" * 5000),
    ],
)
def test_bytes_are_those_of_the_message(
    revision: Revision, output: int, ids: tuple[int, ...], text: str
) -> None:
    raw = token_response(response_head("id-ü"), output_head(output), ids, text)
    message = revision.message("GenerateResponse")(request_id="id-ü")
    message.token.output_index = output
    message.token.text = text
    for token_id in ids:
        message.token.tokens.add(token_id=token_id)
    assert raw == message.SerializeToString()


@pytest.mark.parametrize("token_id", [-1, 2**32])
def test_ids_that_no_field_holds_are_the_engines_fault(token_id: int) -> None:
    with pytest.raises(EngineFault, match="token id"):
        token_response(response_head("a"), output_head(0), (token_id,), "")


def test_lone_surrogates_become_question_marks() -> None:
    raw = token_response(response_head("a"), output_head(0), (1,), "a\ud800")
    assert BOTH[0].message("GenerateResponse").FromString(raw).token.text == "a?"
