"""Server reflection over files of several pools, in both of its versions.

The servicer of grpcio-reflection answers from one pool. Here the two revisions have one each, with
messages of the same names: services and files are all found, and a message that both have is the
first revision's. A client that begins with a service gets the messages of that service's revision,
since no file of one is called as one of the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
)
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped, unused-ignore]
from grpc_reflection.v1alpha import reflection_pb2

from inferlab_adapters.openengine.revisions import REVISIONS, Revision

METHOD = "ServerReflectionInfo"
ALPHA = "grpc.reflection.v1alpha"
STABLE = "grpc.reflection.v1"


class Reflection:
    """Answers what services there are and how their messages look.

    Of ``revisions``, the earlier one gives the messages that several have.
    """

    def __init__(self, revisions: Iterable[Revision] = tuple(REVISIONS.values())) -> None:
        self._files: dict[str, FileDescriptorProto] = {}
        self._symbols: dict[str, str] = {}
        self._messages: set[str] = set()
        self._services: list[str] = []
        for revision in revisions:
            self._add(revision.files)
        alpha = FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
        health = FileDescriptorProto.FromString(health_pb2.DESCRIPTOR.serialized_pb)
        self._add((health, alpha, _stable(alpha)))
        self._closure = cache(self._closed)

    @property
    def services(self) -> tuple[str, ...]:
        """The full names of all services that are listed."""
        return tuple(sorted(self._services))

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """What a ``grpc.aio`` server has to be given (``add_generic_rpc_handlers``)."""
        # The messages of both versions are the same but for the name of their package.
        handler = grpc.stream_stream_rpc_method_handler(
            self._serve,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        return tuple(
            grpc.method_handlers_generic_handler(f"{package}.ServerReflection", {METHOD: handler})
            for package in (ALPHA, STABLE)
        )

    def answer(self, request: Any) -> Any:
        """The response to one request of the stream."""
        response = reflection_pb2.ServerReflectionResponse(
            valid_host=request.host, original_request=request
        )
        asked = request.WhichOneof("message_request")
        if asked == "list_services":
            for name in self.services:
                response.list_services_response.service.add(name=name)
        elif asked == "file_by_filename":
            self._give(response, request.file_by_filename)
        elif asked == "file_containing_symbol":
            symbol = request.file_containing_symbol.removeprefix(".")
            self._give(response, self._symbols.get(symbol))
        elif asked == "all_extension_numbers_of_type":
            # Messages of proto3 have none.
            if request.all_extension_numbers_of_type in self._messages:
                found = response.all_extension_numbers_response
                found.base_type_name = request.all_extension_numbers_of_type
            else:
                _refuse(response, grpc.StatusCode.NOT_FOUND)
        elif asked == "file_containing_extension":
            _refuse(response, grpc.StatusCode.NOT_FOUND)
        else:
            _refuse(response, grpc.StatusCode.INVALID_ARGUMENT)
        return response

    async def _serve(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            yield self.answer(request)

    def _give(self, response: Any, file: str | None) -> None:
        if file is None or file not in self._files:
            _refuse(response, grpc.StatusCode.NOT_FOUND)
        else:
            response.file_descriptor_response.file_descriptor_proto.extend(self._closure(file))

    def _closed(self, name: str) -> tuple[bytes, ...]:
        """A file and all that it needs, the file first."""
        names = [name]
        for each in names:
            names.extend(d for d in self._files[each].dependency if d not in names)
        return tuple(self._files[each].SerializeToString() for each in names)

    def _add(self, files: Sequence[FileDescriptorProto]) -> None:
        for file in files:
            self._files.setdefault(file.name, file)
            self._services += [f"{file.package}.{service.name}" for service in file.service]
            for symbol in _symbols(file):
                self._symbols.setdefault(symbol, file.name)
            for kind in file.message_type:
                self._messages.update(_names(file.package, kind))


def _refuse(response: Any, code: grpc.StatusCode) -> None:
    number, text = code.value
    response.error_response.error_code = number
    response.error_response.error_message = text


def _stable(alpha: FileDescriptorProto) -> FileDescriptorProto:
    """The description of version v1, which grpcio-reflection has not: v1alpha by its own name."""
    file = FileDescriptorProto()
    file.CopyFrom(alpha)
    file.name = alpha.name.replace("v1alpha", "v1")
    file.package = STABLE
    file.ClearField("options")
    for kind in file.message_type:
        for field in kind.field:
            if field.type_name:
                field.type_name = field.type_name.replace(ALPHA, STABLE)
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(ALPHA, STABLE)
            method.output_type = method.output_type.replace(ALPHA, STABLE)
    return file


def _names(scope: str, kind: DescriptorProto) -> Iterator[str]:
    """The full names of a message and those inside it."""
    name = f"{scope}.{kind.name}"
    yield name
    for inner in kind.nested_type:
        yield from _names(name, inner)


def _symbols(file: FileDescriptorProto) -> Iterator[str]:
    """The full name of everything that a file defines."""
    for service in file.service:
        yield f"{file.package}.{service.name}"
        for method in service.method:
            yield f"{file.package}.{service.name}.{method.name}"
    for enum in file.enum_type:
        yield from _of_enum(file.package, enum)
    for kind in file.message_type:
        yield from _of_message(file.package, kind)


def _of_message(scope: str, kind: DescriptorProto) -> Iterator[str]:
    name = f"{scope}.{kind.name}"
    yield name
    yield from (f"{name}.{field.name}" for field in kind.field)
    yield from (f"{name}.{oneof.name}" for oneof in kind.oneof_decl)
    for enum in kind.enum_type:
        yield from _of_enum(name, enum)
    for inner in kind.nested_type:
        yield from _of_message(name, inner)


def _of_enum(scope: str, enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"{scope}.{enum.name}"
    # Values stand beside their enum, not inside it.
    for value in enum.value:
        yield f"{scope}.{value.name}"
