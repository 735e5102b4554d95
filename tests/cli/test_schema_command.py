"""``oe schema`` prints the schemas, also where the checkout's folder is not at hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from inferlab_adapters import schema_file
from tests.cli.invoke import oe
from tests.support.schema import SCHEMA_FILE


def test_the_wire_schema_is_the_committed_one() -> None:
    done = oe("schema", "wire")
    assert (done.code, done.out) == (0, SCHEMA_FILE.read_text(encoding="utf-8"))


def test_an_installed_package_holds_the_schema_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(SCHEMA_FILE, tmp_path / schema_file.NAME)
    places = (tmp_path / schema_file.NAME, tmp_path / "missing")
    monkeypatch.setattr(schema_file, "_PLACES", places)
    assert schema_file.wire_schema() == SCHEMA_FILE.read_text(encoding="utf-8")
    places[0].unlink()
    with pytest.raises(FileNotFoundError, match=schema_file.NAME):
        schema_file.wire_schema()


def test_the_deployment_schema_is_a_schema() -> None:
    done = oe("schema", "deployment")
    assert done.code == 0
    schema = json.loads(done.out)
    Draft202012Validator.check_schema(schema)
    judge = Draft202012Validator(schema)
    assert judge.is_valid({"framework": "vllm", "model": {"id": "llama"}})
    assert not judge.is_valid({"framework": "vllm", "modle": {"id": "llama"}})


def test_an_unknown_schema_is_a_wrong_command_line() -> None:
    assert oe("schema", "bananas").code == 2
