"""Messages from plain data."""

from typing import Any

import pytest

from inferlab_adapters.openengine import structs
from inferlab_adapters.openengine.messages import build
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision

BOTH = pytest.mark.parametrize("revision", [SEED, V0_1_0], ids=lambda revision: revision.name)


@BOTH
def test_every_kind_of_field(revision: Revision) -> None:
    request = build(
        revision.message("GenerateRequest"),
        {
            "request_id": "a",
            "token_ids": {"ids": [1, 2]},
            "sampling": {"temperature": 0, "seed": 2**64 - 1},
            "stopping": {"conditions": [{"stop_text": "x"}, {"stop_token_id": 0}]},
            "response": {"output_candidates": {"all": {}}},
            "kv": {"session": {"attributes_struct": {"big": 2**60, "list": [True]}}},
            "media": [{"modality": "MODALITY_AUDIO", "raw_bytes": b"\0"}, {"modality": 2}],
            "lora_name": None,
        },
    )
    assert request.WhichOneof("input") == "token_ids"
    assert list(request.token_ids.ids) == [1, 2]
    assert request.sampling.HasField("temperature")
    assert not request.sampling.HasField("top_p")
    assert request.sampling.seed == 2**64 - 1
    assert [c.WhichOneof("condition") for c in request.stopping.conditions] == [
        "stop_text",
        "stop_token_id",
    ]
    assert request.response.output_candidates.WhichOneof("selection") == "all"
    attributes = structs.plain(request.kv.session.attributes_struct)
    assert attributes == {"big": str(2**60), "list": [True]}
    assert [item.modality for item in request.media] == [3, 2]
    assert request.lora_name == ""


def test_maps_and_enum_lists() -> None:
    assert build(SEED.message("GenerateRequest"), {"metadata": {"a": "b"}}).metadata == {"a": "b"}
    types = ["RUNTIME_EVENT_TYPE_BATCH", 3]
    assert list(build(SEED.message("SubscribeRuntimeEventsRequest"), {"types": types}).types) == [
        2,
        3,
    ]


@BOTH
def test_a_message_can_stand_for_a_mapping(revision: Revision) -> None:
    session = revision.message("KvSessionRef")(session_id="s")
    request = build(revision.message("AbortRequest"), {"kv_session": session})
    assert request.kv_session == session


@BOTH
def test_an_empty_mapping_makes_a_message_present(revision: Revision) -> None:
    request = build(revision.message("AbortRequest"), {"all_requests": {}})
    assert request.WhichOneof("target") == "all_requests"


@pytest.mark.parametrize(
    ("data", "error", "why"),
    [
        ({"prompts": "x"}, KeyError, "openengine.v1.GenerateRequest has no field prompts"),
        ({"kv": {"x": 1}}, KeyError, "openengine.v1.KvOptions has no field x"),
        ({"media": [{"modality": "MODALITY_SMELL"}]}, ValueError, "Modality has no value"),
        ({"sampling": {"num_sequences": -1}}, ValueError, "-1"),
        ({"request_id": 5}, TypeError, "bad argument type"),
    ],
)
def test_what_does_not_fit_is_refused(
    data: dict[str, Any], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        build(SEED.message("GenerateRequest"), data)
