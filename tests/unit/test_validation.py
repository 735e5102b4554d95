"""Pydantic's errors in our own words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferlab_adapters.protocol import SettingValue
from inferlab_adapters.validation import faults_of


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Cat(Strict):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(Strict):
    kind: Literal["dog"]
    name: str
    dog: str = ""


class House(Strict):
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    colour: Literal["red", "green"] | None = None
    doors: int | None = None
    height: float = 1.0
    open: bool = False
    notes: dict[str, SettingValue] = {}
    cellar: Cellar | None = None
    name: Annotated[str, Field(max_length=9)] = ""
    even: Annotated[int, Field(multiple_of=2)] = 2


class Cellar(Strict):
    depth: int


def faults(document: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        House.model_validate(document)
    return [str(fault) for fault in faults_of(caught.value, House, document)]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"colour": 5}, '/colour: must be "red" or "green", got number 5'),
        (
            {"colour": "gren"},
            '/colour: must be "red" or "green", got string "gren"; did you mean "green"?',
        ),
        ({"doors": "4"}, '/doors: must be an integer, got string "4"'),
        ({"doors": 1.0}, "/doors: must be an integer, got number 1.0"),
        ({"doors": 1.5}, "/doors: must be an integer, got number 1.5"),
        ({"doors": True}, "/doors: must be an integer, got boolean true"),
        ({"height": "x"}, '/height: must be a number, got string "x"'),
        ({"open": 1}, "/open: must be true or false, got number 1"),
        ({"notes": []}, "/notes: must be an object, got array []"),
        ({"pets": {}}, "/pets: must be an array, got object {}"),
        ({"pets": None}, "/pets: must be an array, got null"),
        ({"cellar": []}, "/cellar: must be an object, got array []"),
        ({"cellar": {}}, "/cellar/depth: is missing; add it"),
        ({"cellar": {"dept": 1, "depth": 1}}, '/cellar/dept: unknown field; did you mean "depth"?'),
        ({"cellar": {"zzz": 1, "depth": 1}}, "/cellar/zzz: unknown field; remove it"),
        ({"color": "red"}, '/color: unknown field; did you mean "colour"?'),
        ({"pets": ["x"]}, '/pets/0: must be an object, got string "x"'),
        ({"pets": [{"lives": 9}]}, "/pets/0/kind: is missing; add it"),
        (
            {"pets": [{"kind": "dogg", "name": "x"}]},
            '/pets/0/kind: must be "cat" or "dog", got string "dogg"; did you mean "dog"?',
        ),
        ({"pets": [{"kind": None}]}, '/pets/0/kind: must be "cat" or "dog", got null'),
        ({"pets": [{"kind": 5}]}, '/pets/0/kind: must be "cat" or "dog", got number 5'),
        ({"pets": [{"kind": "cat", "lives": 0}]}, "/pets/0/lives: must be at least 1, got 0"),
        ({"pets": [{"kind": "cat", "lives": 10}]}, "/pets/0/lives: must be at most 9, got 10"),
        ({"pets": [{"kind": "cat"}]}, "/pets/0/lives: is missing; add it"),
        (
            {"pets": [{"kind": "dog", "nam": "x", "name": "y"}]},
            '/pets/0/nam: unknown field; did you mean "name"?',
        ),
        # A field that is called like the kind that the union adds to pydantic's path.
        (
            {"pets": [{"kind": "dog", "name": "x", "dog": 5}]},
            "/pets/0/dog: must be a string, got number 5",
        ),
        (
            {"pets": [{"kind": "cat", "lives": 1, "cat": 5}]},
            "/pets/0/cat: unknown field; remove it",
        ),
        (
            {"cellar": {"depth": "\ud800"}},
            '/cellar/depth: must be an integer, got string "\\ud800"',
        ),
        (
            {"name": "\ud800"},
            "/name: is not Unicode text",
        ),
        ({"even": 3}, "/even: is not valid, got 3"),
        ({"a/b": {"~": 1}}, "/a~1b: unknown field; remove it"),
    ],
)
def test_every_kind_of_fault_says_where_and_what(document: Any, message: str) -> None:
    assert faults(document) == [message]


def test_a_fault_inside_a_setting_points_into_it() -> None:
    (fault,) = faults({"notes": {"a/b": [1, {"c": None}]}})
    assert fault.startswith("/notes/a~1b/1/c: ")
    assert "null" in fault


def test_the_whole_document_may_be_wrong() -> None:
    (fault,) = faults([])
    assert fault == "must be an object, got array []"


def test_the_worst_comes_first() -> None:
    document = {
        "colour": "blue",
        "zzz": 1,
        "cellar": {},
        "doors": "x",
        "pets": [{"kind": "cat", "lives": 0}],
    }
    assert [fault.partition(":")[0] for fault in faults(document)] == [
        "/doors",
        "/cellar/depth",
        "/zzz",
        "/pets/0/lives",
        "/colour",
    ]
