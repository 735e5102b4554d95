"""A deployment file said in full: the plan request, and where in the file each part stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from pydantic import BaseModel, ValidationError

from inferlab_adapters.control.deployment_file import DeploymentFile, Parallelism, Role, RoleKind
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault, one_of, pointer
from inferlab_adapters.validation import faults_of

KINDS: tuple[str, ...] = get_args(RoleKind)
PARTS = ("outer", "attention", "experts")
SHORT = {
    "tensor": "outer",
    "pipeline": "outer",
    "data": "attention",
    "context": "attention",
    "expert": "experts",
}
"""The part that a size belongs to where none is named."""

_SIZE = "_parallel_size"
_FIELDS = {
    "topology": "topology",
    "routing_backend": "routing",
    "kv_transfer": "kv_transfer",
    "roles": "roles",
    "profiling": "profiling",
}
# What requests and people call these otherwise, too far off to be guessed.
_OTHERWISE = {"routing_backend": "routing", "router": "routing", "replica_count": "replicas"}


def check(document: Json) -> DeploymentFile:
    """The deployment file that a document is. Raises :class:`Refused` with every fault."""
    try:
        return DeploymentFile.model_validate(document)
    except ValidationError as error:
        faults = faults_of(error, DeploymentFile, document)
        raise Refused(*map(_by_its_name_here, faults)) from None


def _by_its_name_here(fault: Fault) -> Fault:
    name = _OTHERWISE.get(fault.pointer.rpartition("/")[2])
    if name is None or fault.what != "unknown field":
        return fault
    return fault._replace(hint=f"it is called {name} here")


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A plan request, and for its pointers where in the file they are said.

    The pointers are those of the plan request and of the render requests that follow from it.
    Settings and sizes have one where the file gives them, every other field one in any case: the
    place where the file would say it.
    """

    request: Json
    pointers: Mapping[str, str]


def said(file: DeploymentFile, *, model_at: str) -> Said:
    """The request of a file whose model id stands at ``model_at``.

    Raises :class:`Refused` with every fault.
    """
    making = _Making(file=file)
    roles = [making.role(index, name, role) for index, (name, role) in enumerate(_roles(file))]
    if making.faults:
        raise Refused(*making.faults)
    model, apart = file.model, {"prefill", "decode"} & {role["kind"] for role in roles}
    named = model.served_name is not None
    wanted: Json = {
        "model": {"id": model.id, "served_name": model.served_name if named else model.id},
        "topology": file.topology or ("prefill_decode" if apart else "single"),
        "routing_backend": file.routing,
        "kv_transfer": file.kv_transfer,
        "roles": roles,
        "profiling": file.profiling,
    }
    pointers = {f"/input/{name}": f"/{key}" for name, key in _FIELDS.items()} | {
        "/input/model": "/model",
        "/input/model/id": model_at,
        "/input/model/served_name": "/model/served_name" if named else model_at,
    }
    return Said(
        request={
            "operation": "plan_serve",
            "protocol_version": "6",
            "input": {name: value for name, value in wanted.items() if value is not None},
        },
        pointers=pointers | making.pointers,
    )


def _roles(file: DeploymentFile) -> list[tuple[str, Role]]:
    if file.roles is not None:
        return [(name, role or Role()) for name, role in file.roles.items()]
    apart = file.topology == "prefill_decode"
    return [(name, Role()) for name in (("prefill", "decode") if apart else ("serve",))]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Making:
    """What is found while the roles are made."""

    file: DeploymentFile
    pointers: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def role(self, index: int, name: str, role: Role) -> Json:
        at, there = f"/input/roles/{index}", pointer("/roles", name)
        kind = role.kind or name
        if kind not in KINDS:
            hint = f"add it: {one_of(KINDS)}"
            self.faults.append(Fault(f"{there}/kind", "is missing", hint))
        places = {
            at: there,
            f"{at}/id": there,
            f"{at}/kind": f"{there}/kind" if role.kind else there,
            f"{at}/replica_count": f"{there}/replicas",
            f"{at}/declared_replica_count": f"{there}/replicas",
            f"{at}/effective_replica_count": f"{there}/replicas",
        }
        self.pointers.update(places)
        return {
            "id": name,
            "kind": kind,
            "replica_count": role.replicas or 1,
            "parallelism": self._parallelism(at, there, role.parallelism or Parallelism()),
            "settings": self._settings(at, there, role),
        }

    def _settings(self, at: str, there: str, role: Role) -> Json:
        common, own = self.file.settings or {}, role.settings or {}
        # What no key is found for goes where the role's settings are said.
        self._note(at, "settings", "", f"{there}/settings" if own or not common else "/settings")
        for base, keys in (("/settings", common), (f"{there}/settings", own)):
            for key in keys:
                self._note(at, "settings", pointer("", key), pointer(base, key))
        return {**common, **own}

    def _parallelism(self, at: str, there: str, sizes: Parallelism) -> Json:
        self._note(at, "parallelism", "", f"{there}/parallelism")
        made: Json = {}
        places: dict[tuple[str, str], str] = {}
        for path, part, name, size in _sizes(sizes):
            place = f"{there}/parallelism{path}"
            if (part, name) in places:
                what = f"is the size that {places[part, name]} gives"
                self.faults.append(Fault(place, what, "keep one"))
                continue
            places[part, name] = place
            made.setdefault(part, {})[name] = size
            self._note(at, "parallelism", f"/{part}/{name}", place)
        return made

    def _note(self, at: str, section: str, path: str, place: str) -> None:
        """A plan request and a render request call a section differently."""
        self.pointers[f"{at}/{section}{path}"] = place
        self.pointers[f"{at}/effective_{section}{path}"] = place


def _sizes(parallelism: Parallelism) -> Iterator[tuple[str, str, str, int]]:
    """Every size given: its path in the file, then its part, name and value on the wire."""
    for key, part in SHORT.items():
        size = getattr(parallelism, key)
        if size is not None:
            yield f"/{key}", part, f"{key}{_SIZE}", size
    for part in PARTS:
        group: BaseModel | None = getattr(parallelism, part)
        for key, size in group or ():
            if size is not None:
                yield f"/{part}/{key}", part, f"{key.removesuffix(_SIZE)}{_SIZE}", size
