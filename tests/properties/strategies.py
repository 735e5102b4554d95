"""Random deployments for any adapter: shapes, settings from its own catalogue, placements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from inferlab_adapters.adapter import Adapter
from inferlab_adapters.catalogue import Option
from tests.support.control_plane import Json, Placement, plan_request, role

SIZE = st.sampled_from([1, 2, 4, 8])
WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=8
)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def legal_value(option: Option) -> st.SearchStrategy[Any]:
    """A JSON value that the option's catalogue entry allows."""
    if option.kind in ("switch", "negatable"):
        return st.booleans()
    if option.kind == "json":
        if option.shape == "array":
            return st.lists(VALUES, max_size=3)
        return st.dictionaries(WORDS, VALUES, max_size=3)
    item: st.SearchStrategy[Any]
    if option.choices:
        item = st.sampled_from(option.choices)
    elif option.type.startswith(("int", "human_int")):
        item = st.integers(1, 4096)
    elif option.type == "float":
        item = st.floats(-1e6, 1e6)
    else:
        item = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1).filter(
            lambda text: text != "None" and not (option.kind == "list" and text.startswith("-"))
        )
    return st.lists(item, min_size=1, max_size=3) if option.kind == "list" else item


@st.composite
def settings_of(draw: st.DrawFn, adapter: Adapter, version: str) -> Json:
    """A few options by name, with legal values, that nobody but the settings decides."""
    table = adapter.option_table(version)
    free = sorted(name for name, option in table.options.items() if not table.owner(option))
    names = draw(st.lists(st.sampled_from(free), max_size=5, unique=True))
    return {name: draw(legal_value(table[name])) for name in names}


@st.composite
def shape(draw: st.DrawFn) -> Mapping[str, Mapping[str, int]]:
    """Any of the nine sizes, each named or not."""
    groups = {
        "outer": ("tensor", "pipeline"),
        "attention": ("data", "tensor", "context"),
        "experts": ("expert", "tensor", "data", "dense_tensor"),
    }
    declared: dict[str, dict[str, int]] = {}
    likely = {"tensor": 3, "data": 3, "pipeline": 2, "expert": 2}
    for group, names in groups.items():
        for name in names:
            weight = likely.get(name, 1) if name != "tensor" or group == "outer" else 1
            if draw(st.integers(0, 7)) < weight:
                declared.setdefault(group, {})[name] = draw(SIZE)
    return declared


@st.composite
def requests(draw: st.DrawFn, adapter: Adapter, version: str) -> Json:
    """A plan request that may well be refused, for a shape that does not fit."""

    def one(kind: str) -> Json:
        return role(
            kind,
            id=draw(st.sampled_from([kind, f"{kind}-a", f"the_{kind}"])),
            count=draw(st.integers(1, 3)),
            settings=draw(settings_of(adapter, version)),
            **draw(shape()),
        )

    profiling = draw(st.booleans())
    if draw(st.booleans()):
        return plan_request(one("serve"), profiling=profiling)
    backend = draw(st.sampled_from([None, "builtin", *adapter.routers]))
    return plan_request(
        one("prefill"),
        one("decode"),
        kv_transfer=draw(st.sampled_from(sorted(adapter.mechanisms))),
        profiling=profiling,
        **({"routing_backend": backend} if backend else {}),
    )


@st.composite
def placements(draw: st.DrawFn, request: Json) -> Placement:
    """Where to put it: on one machine or many, each replica on one process or several."""
    names = [item["id"] for item in request["input"]["roles"]]
    together = draw(st.booleans())
    hosts = draw(st.sampled_from(["10.0.0.{}", "fd00::{}", "gpu-{}.cluster"]))
    return Placement(
        ranks={} if together else {name: draw(st.sampled_from([1, 1, 2, 4])) for name in names},
        hosts=lambda index: hosts.format(index + 1),
        together=together,
        model_locator=draw(st.sampled_from(["/models/llama", "org/model", "/mnt/AI Models/m"])),
    )
