"""The .proto files: compiled as committed, and number for number what the contract says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from inferlab_adapters.openengine.revisions import PACKAGE, SEED, V0_1_0, Revision

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# Type, name and number of everything in the contract; and what v0.1.0 has otherwise.
CONTRACT: dict[str, Any] = json.loads((HERE / "seed_fields.json").read_text())
CHANGES: dict[str, Any] = json.loads((HERE / "v0_1_0_changes.json").read_text())

SCALARS = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in ("double", "float", "int32", "int64", "uint32", "uint64", "bool", "string", "bytes")
}


def type_of(field: FieldDescriptor) -> str:
    """The type of a field as a .proto file of the package writes it."""
    if field.enum_type is not None:
        return field.enum_type.name
    kind = field.message_type
    if kind is None:
        return SCALARS[field.type]
    if kind.GetOptions().map_entry:
        key, value = (SCALARS[kind.fields_by_name[part].type] for part in ("key", "value"))
        return f"map<{key}, {value}>"
    return kind.full_name.removeprefix(f"{PACKAGE}.")


def written(field: FieldDescriptor) -> str:
    """A field in the words of the data files: number, label, type, oneof."""
    words = [str(field.number)]
    oneof = field.containing_oneof
    synthetic = oneof is not None and oneof.name == f"_{field.name}"
    if synthetic:
        words.append("optional")
    if field.is_repeated and not type_of(field).startswith("map<"):
        words.append("repeated")
    words.append(type_of(field))
    if oneof is not None and not synthetic:
        words.append(f"@{oneof.name}")
    return " ".join(words)


def own_files(revision: Revision) -> list[FileDescriptorProto]:
    """The files of a revision but protobuf's own."""
    return [file for file in revision.files if file.package == PACKAGE]


def messages(revision: Revision) -> dict[str, dict[str, str]]:
    """All messages of a revision in the words of the data files."""
    found: dict[str, Descriptor] = {}
    for file in own_files(revision):
        descriptors = revision.pool.FindFileByName(file.name).message_types_by_name
        assert not found.keys() & descriptors.keys()
        found |= descriptors
    return {
        name: {field.name: written(field) for field in descriptor.fields}
        for name, descriptor in found.items()
    }


def enums(revision: Revision) -> dict[str, dict[str, int]]:
    """All enums of a revision."""
    return {
        name: {value.name: value.number for value in descriptor.values}
        for file in own_files(revision)
        for name, descriptor in revision.pool.FindFileByName(file.name).enum_types_by_name.items()
    }


def rpcs(revision: Revision) -> dict[str, str]:
    """All RPCs of a revision."""
    return {
        f"{service.name}.{method.name}": (
            f"{method.input_type.name} -> "
            f"{'stream ' if method.server_streaming else ''}{method.output_type.name}"
        )
        for file in revision.files
        for service in revision.pool.FindFileByName(file.name).services_by_name.values()
        for method in service.methods
    }


def differences(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What changed of the parts that both sides' types have: [before, after]."""
    return {
        f"{name}.{part}": [old[name].get(part), new[name].get(part)]
        for name in old.keys() & new.keys()
        for part in old[name].keys() | new[name].keys()
        if old[name].get(part) != new[name].get(part)
    }


def test_the_compiled_sets_are_those_of_the_proto_files() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_openengine.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", CONTRACT["messages"])
def test_a_message_of_the_seed_is_the_contract_s(name: str) -> None:
    assert messages(SEED)[name] == CONTRACT["messages"][name]


def test_the_seed_has_all_of_the_contract_and_no_more() -> None:
    assert messages(SEED).keys() == CONTRACT["messages"].keys()
    assert enums(SEED) == CONTRACT["enums"]
    assert rpcs(SEED) == CONTRACT["rpcs"]
    assert sum(map(len, CONTRACT["messages"].values())) == 374


def test_v0_1_0_has_other_types_as_listed() -> None:
    before = {**messages(SEED), **enums(SEED)}
    after = {**messages(V0_1_0), **enums(V0_1_0)}
    assert sorted(before.keys() - after.keys()) == CHANGES["removed"]
    assert {name: after[name] for name in after.keys() - before.keys()} == CHANGES["added"]


def test_v0_1_0_has_other_fields_values_and_rpcs_as_listed() -> None:
    assert differences(messages(SEED), messages(V0_1_0)) == CHANGES["fields"]
    assert differences(enums(SEED), enums(V0_1_0)) == CHANGES["values"]
    assert differences({"": rpcs(SEED)}, {"": rpcs(V0_1_0)}) == {
        f".{name}": change for name, change in CHANGES["rpcs"].items()
    }


def test_no_file_of_one_revision_is_called_as_one_of_the_other() -> None:
    # Clients of reflection remember files by name, whichever service led them there.
    names = [{file.name for file in revision.files[1:]} for revision in (SEED, V0_1_0)]
    assert not names[0] & names[1]


@pytest.mark.parametrize("revision", [SEED, V0_1_0], ids=lambda revision: revision.name)
def test_comments_are_not_shipped(revision: Revision) -> None:
    assert not any(file.HasField("source_code_info") for file in revision.files)
