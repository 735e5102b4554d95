"""Reflection over both revisions, asked as clients do."""

from collections.abc import Iterable
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc import aio
from grpc_reflection.v1alpha import reflection_pb2

from inferlab_adapters.openengine.reflection import Reflection
from inferlab_adapters.openengine.revisions import SEED, V0_1_0
from tests.openengine.test_client import serving

Request = reflection_pb2.ServerReflectionRequest
LISTED = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "openengine.v1.Control",
    "openengine.v1.Inference",
    "openengine.v1.OpenEngine",
]


def given(reflection: Reflection, **asked: Any) -> list[FileDescriptorProto]:
    """The files that answer a request."""
    response = reflection.answer(Request(host="h", **asked))
    assert response.valid_host == "h"
    assert response.original_request == Request(host="h", **asked)
    assert response.WhichOneof("message_response") == "file_descriptor_response"
    found = response.file_descriptor_response.file_descriptor_proto
    return [FileDescriptorProto.FromString(data) for data in found]


def pool_of(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    """A client's pool: it takes a file only after those that it needs."""
    pool = DescriptorPool()
    waiting = list(files)
    added: set[str] = set()
    while waiting:
        ready = [file for file in waiting if added.issuperset(file.dependency)]
        assert ready, "a file is missing that another needs"
        for file in ready:
            pool.AddSerializedFile(file.SerializeToString())
            added.add(file.name)
            waiting.remove(file)
    return pool


@pytest.mark.parametrize("service", LISTED)
def test_a_client_learns_a_service_from_its_name_alone(service: str) -> None:
    files = given(Reflection(), file_containing_symbol=service)
    found = pool_of(files).FindServiceByName(service)
    assert found.file.name == files[0].name
    for revision in (SEED, V0_1_0):
        if service in revision.services:
            assert tuple(m.name for m in found.methods) == revision.methods(service)
            for method in found.methods:
                ours = revision.method(service, method.name)
                assert [f.number for f in method.input_type.fields] == [
                    f.number for f in ours.request.DESCRIPTOR.fields
                ]


def test_the_seed_gives_what_both_have_and_each_what_it_alone_has() -> None:
    reflection = Reflection()
    for symbol, file in {
        "openengine.v1.GenerateRequest": "seed/openengine/v1/openengine.proto",
        ".openengine.v1.GenerateRequest": "seed/openengine/v1/openengine.proto",
        "openengine.v1.ServerInfo": "openengine/v1/server.proto",
        "openengine.v1.ServerInfo.capacity": "openengine/v1/server.proto",
        "openengine.v1.Control.Health": "openengine/v1/openengine.proto",
        "openengine.v1.OpenEngine.Health": "seed/openengine/v1/openengine.proto",
        "openengine.v1.DRAIN_STATE_STARTED": "seed/openengine/v1/openengine.proto",
        "google.protobuf.Struct.FieldsEntry": "google/protobuf/struct.proto",
        "google.protobuf.Value.kind": "google/protobuf/struct.proto",
        "grpc.health.v1.HealthCheckResponse.SERVING": "health/v1/health.proto",
    }.items():
        assert given(reflection, file_containing_symbol=symbol)[0].name.endswith(file), symbol
    v0_1_0_first = Reflection((V0_1_0, SEED))
    assert (
        given(v0_1_0_first, file_containing_symbol="openengine.v1.GenerateRequest")[0].name
        == "openengine/v1/generation.proto"
    )


def test_files_are_found_by_name() -> None:
    files = given(Reflection(), file_by_filename="openengine/v1/lifecycle.proto")
    assert files[0].name == "openengine/v1/lifecycle.proto"
    assert {file.name for file in files} == {
        "openengine/v1/lifecycle.proto",
        "openengine/v1/server.proto",
        "openengine/v1/kv.proto",
        "openengine/v1/error.proto",
        "google/protobuf/struct.proto",
    }


def test_one_revision_alone_can_be_shown() -> None:
    reflection = Reflection((V0_1_0,))
    assert "openengine.v1.OpenEngine" not in reflection.services
    assert "openengine.v1.Control" in reflection.services


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (Request(file_by_filename="x.proto"), grpc.StatusCode.NOT_FOUND),
        (Request(file_containing_symbol="openengine.v1.Nothing"), grpc.StatusCode.NOT_FOUND),
        (Request(all_extension_numbers_of_type="x.Y"), grpc.StatusCode.NOT_FOUND),
        (Request(file_containing_extension={}), grpc.StatusCode.NOT_FOUND),
        (Request(), grpc.StatusCode.INVALID_ARGUMENT),
    ],
    ids=lambda value: value.name if isinstance(value, grpc.StatusCode) else "",
)
def test_what_is_not_there_is_an_error_in_the_stream(
    request_: reflection_pb2.ServerReflectionRequest, code: grpc.StatusCode
) -> None:
    response = Reflection().answer(request_)
    assert response.WhichOneof("message_response") == "error_response"
    assert response.error_response.error_code == code.value[0]


def test_messages_have_no_extensions() -> None:
    asked = Request(all_extension_numbers_of_type="openengine.v1.Usage")
    found = Reflection().answer(asked).all_extension_numbers_response
    assert found.base_type_name == "openengine.v1.Usage"
    assert list(found.extension_number) == []


@pytest.mark.parametrize("package", ["grpc.reflection.v1", "grpc.reflection.v1alpha"])
def test_both_versions_answer_on_a_port(package: str) -> None:
    async def ask(channel: aio.Channel) -> list[reflection_pb2.ServerReflectionResponse]:
        rpc = channel.stream_stream(
            f"/{package}.ServerReflection/ServerReflectionInfo",
            request_serializer=Request.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        asked = [Request(list_services=""), Request(file_containing_symbol="x"), Request()]
        return [response async for response in rpc(iter(asked))]

    listed, unknown, odd = serving(Reflection().handlers(), ask)
    assert [service.name for service in listed.list_services_response.service] == LISTED
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert odd.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
