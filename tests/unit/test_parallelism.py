"""The nine sizes: read, required, written."""

from __future__ import annotations

from typing import Any

import pytest

from inferlab_adapters.errors import Faults
from inferlab_adapters.parallelism import MAX_DEVICES, DeclaredLayout, divisors
from inferlab_adapters.protocol import Parallelism
from tests.support.control_plane import SIZES, ask, output, plan_request, role
from tests.unit.fake import FAKE, messages

FIELDS = {
    "tensor": ("outer", "tensor"),
    "pipeline": ("outer", "pipeline"),
    "attention_tensor": ("attention", "tensor"),
    "attention_data": ("attention", "data"),
    "attention_context": ("attention", "context"),
    "expert_tensor": ("experts", "tensor"),
    "expert_data": ("experts", "data"),
    "expert": ("experts", "expert"),
    "dense_tensor": ("experts", "dense_tensor"),
}


def read(wire: dict[str, Any]) -> DeclaredLayout:
    return DeclaredLayout.from_wire(Parallelism.model_validate(wire), "/p")


@pytest.mark.parametrize("wire", [{}, {"outer": None, "experts": None}, {"attention": {}}])
def test_what_is_not_named_is_not_declared(wire: dict[str, Any]) -> None:
    assert list(read(wire).declared()) == []
    assert read(wire) == DeclaredLayout(base="/p")


@pytest.mark.parametrize(("field", "path"), FIELDS.items())
@pytest.mark.parametrize("size", [1, 6])
def test_each_size_is_read_from_its_place(field: str, path: tuple[str, str], size: int) -> None:
    group, name = path[0], f"{path[1]}_parallel_size"
    declared = read({group: {name: size}})
    assert list(declared.declared()) == [(field, size)]
    assert declared.pointer(field) == f"/p/{group}/{name}"


@pytest.mark.parametrize(
    ("value", "legal", "message"),
    [
        (None, (1, 2), None),
        (1, (1, 8), None),
        (8, (8, 1), None),
        (2, (8, 1), "must be 1 or 8, got 2; why not"),
        (1, (4, 4), "must be 4, got 1; why not"),
    ],
)
def test_a_declared_size_is_honoured_exactly_or_refused(
    value: int | None, legal: tuple[int, ...], message: str | None
) -> None:
    faults = Faults("invalid_settings")
    DeclaredLayout(base="/p", expert=value).require(faults, "expert", *legal, why="why not")
    expected = [f"/p/experts/expert_parallel_size: {message}"] if message else []
    assert messages(faults) == expected


def test_all_nine_come_back_filled() -> None:
    request = plan_request(role(outer={"tensor": 2}, attention={"data": 3}))
    effective = output(ask(FAKE, request))["roles"][0]["effective_parallelism"]
    sizes = {group: list(sizes.values()) for group, sizes in effective.items()}
    assert sizes == {"outer": [2, 1], "attention": [2, 3, 1], "experts": [2, 1, 1, 1]}
    assert {group: tuple(names) for group, names in effective.items()} == SIZES


@pytest.mark.parametrize(
    ("value", "found", "message"),
    [(None, 1, None), (3, 3, None), (4, 1, "must be 1, 2, 3, 6, 9 or 18, got 4; why not")],
)
def test_a_divisor_is_taken_as_declared_or_refused(
    value: int | None, found: int, message: str | None
) -> None:
    faults = Faults("invalid_settings")
    declared = DeclaredLayout(base="/p", expert=value)
    assert declared.divisor(faults, "expert", 18, why="why not") == found
    assert messages(faults) == ([f"/p/experts/expert_parallel_size: {message}"] if message else [])


def test_divisors_are_not_looked_for_beyond_any_shape() -> None:
    """A request may name sizes of 32 bits; trying each number below one would take minutes."""
    assert divisors(2**32)[-1] == MAX_DEVICES
    assert divisors(2**96)[-1] == MAX_DEVICES
