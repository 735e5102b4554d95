"""The two revisions of OpenEngine, each in a descriptor pool of its own.

Both are called ``openengine.v1`` and give other numbers to fields of the same name, so they can
share neither protobuf's default pool nor generated modules. A :class:`Revision` reads its compiled
descriptors at first use and makes its message classes from them.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

PACKAGE = "openengine.v1"

Name = Literal["seed", "v0.1.0"]

# A class made from descriptors has the fields of its message as attributes; no type says which.
MessageClass: TypeAlias = type[Any]


class Method(NamedTuple):
    """One RPC. ``path`` is what stands in the HTTP/2 request: ``/package.Service/Name``."""

    path: str
    request: MessageClass
    response: MessageClass
    server_streaming: bool


class Revision:
    """One revision: its messages, enums and services, and what discovery says of it.

    Names are given without the package: ``message("GenerateRequest")``, ``service`` as in
    ``method("Control", "Health")``, but a full name does as well. An unknown one is a KeyError.
    """

    schema_revision = 1
    minimum_client_revision = 1

    def __init__(self, name: Name, *, release: str, data: str, services: tuple[str, ...]) -> None:
        self.name: Name = name
        self.schema_release = release
        self.services = tuple(f"{PACKAGE}.{service}" for service in services)
        self._data = data
        self.message = cache(self._message)
        self.enum = cache(self._enum)
        self.method = cache(self._method)

    def __repr__(self) -> str:
        return f"Revision({self.name!r})"

    @cached_property
    def files(self) -> tuple[FileDescriptorProto, ...]:
        """Every file of the revision, dependencies first; struct.proto of protobuf is the first."""
        data = files(__package__).joinpath("proto", self._data).read_bytes()
        return tuple(FileDescriptorSet.FromString(data).file)

    @cached_property
    def pool(self) -> DescriptorPool:
        """A pool with these files and nothing else."""
        pool = DescriptorPool()
        for file in self.files:
            pool.AddSerializedFile(file.SerializeToString())
        return pool

    def _message(self, name: str) -> MessageClass:
        """The class of a message; ``google.protobuf.Struct`` and its parts too."""
        made: type[Message] = GetMessageClass(self.pool.FindMessageTypeByName(_full(name)))
        return made

    def _enum(self, name: str) -> EnumTypeWrapper:
        """An enum: ``.Value(name)``, ``.Name(number)``, ``.items()``."""
        descriptor: EnumDescriptor = self.pool.FindEnumTypeByName(_full(name))
        return EnumTypeWrapper(descriptor)

    def _method(self, service: str, name: str) -> Method:
        """An RPC of a service."""
        found = self.pool.FindServiceByName(_full(service)).methods_by_name[name]
        return Method(
            f"/{found.containing_service.full_name}/{found.name}",
            self.message(found.input_type.full_name),
            self.message(found.output_type.full_name),
            found.server_streaming,
        )

    def methods(self, service: str) -> tuple[str, ...]:
        """The names of a service's RPCs, in the order of the contract."""
        return tuple(m.name for m in self.pool.FindServiceByName(_full(service)).methods)

    def service_of(self, method: str) -> str:
        """The full name of the service that has an RPC; no two of a revision share a name."""
        for service in self.services:
            if method in self.methods(service):
                return service
        raise KeyError(f"{method}: no RPC of OpenEngine {self.name}")


def _full(name: str) -> str:
    return name if "." in name else f"{PACKAGE}.{name}"


SEED = Revision(
    "seed",
    release="d0f29fec31f31db5cfd49cf3e0f67da84d10c709",
    data="seed.binpb",
    services=("OpenEngine",),
)
V0_1_0 = Revision(
    "v0.1.0",
    release="768a93c7b44e40f28c692ad0b471a8f2",
    data="v0_1_0.binpb",
    services=("Inference", "Control"),
)
REVISIONS: dict[str, Revision] = {revision.name: revision for revision in (SEED, V0_1_0)}
