"""What somebody wants served: a request for an adapter, and the file it was read from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from inferlab_adapters.control import documents
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault, shown

UNNAMED = "deployment"
"""The name of what comes from stdin, or from a file whose name has no letter or digit."""

# No deployment file has these; every request does.
_OF_REQUESTS = frozenset({"operation", "protocol_version"})
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_PATHS_HERE = ("./", "../")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A request, complete as it goes to the adapter, with what the file says beside it.

    ``name``: the deployment's, a legal name of a folder. ``framework``: its id on the wire.
    ``request``: a plan_serve or render_serve request. ``model_path``: from a deployment file.
    ``workspace``: absolute folder of the file, the current one for stdin. ``pointers``: places of
    the request to places in the file. ``source``: the file as given, ``-`` for stdin.
    """

    name: str
    framework: str
    request: Json
    model_path: str | None
    workspace: Path
    pointers: Mapping[str, str]
    source: str

    @property
    def placed(self) -> bool:
        """Whether the request names its machines, devices and ports: it is a render_serve one."""
        return bool(self.request.get("operation") == "render_serve")

    def locate(self, request_pointer: str) -> str:
        """The place in the file that a pointer into the request stands for.

        It is the nearest one that the file says, with the rest of the pointer. A pointer to
        what is not from the file, such as an allocation, stays as it is.
        """
        known, rest = request_pointer, ""
        while known not in self.pointers:
            known, slash, last = known.rpartition("/")
            if not slash:
                return request_pointer
            rest = f"/{last}{rest}"
        return self.pointers[known] + rest


def load(file: str, *, framework: str | None, stdin: BinaryIO) -> Wanted:
    """Read a request or a deployment file; ``-`` reads ``stdin``.

    ``framework`` is the one given beside the file: a request needs it, a deployment file may name
    the same. Raises :class:`Refused` with every fault, at their places in the file.
    """
    document = documents.read(file, stdin=stdin)
    try:
        if _OF_REQUESTS & document.keys():
            return _request(document, file, framework)
        return _deployment(document, file, framework)
    except Refused as refused:
        raise Refused(*refused.faults, source=documents.label(file)) from None


def _request(document: Json, file: str, framework: str | None) -> Wanted:
    if framework is None:
        raise Refused(Fault("", "a request does not name its framework", "add --framework"))
    return Wanted(
        name=_name(file),
        framework=framework,
        request=document,
        model_path=None,
        workspace=_workspace(file),
        pointers={"": ""},
        source=file,
    )


def _deployment(document: Json, file: str, framework: str | None) -> Wanted:
    from inferlab_adapters.control import deployment_file, deployment_request

    deployment = deployment_request.check(document)
    faults = []
    pattern = deployment_file.NAME_PATTERN
    if deployment.name is not None and not re.fullmatch(pattern, deployment.name):
        what = f"must be 1 to 100 letters, digits, . _ or -, got {shown(deployment.name)}"
        faults.append(Fault("/name", what, "begin it with a letter or a digit"))
    named = framework if deployment.framework is None else deployment.framework
    if named is None:
        faults.append(Fault("/framework", "is missing", "add it, or give --framework"))
    elif framework not in (None, named):
        what = f"is {shown(named)}, but --framework says {shown(framework)}"
        faults.append(Fault("/framework", what, "keep one"))
    if deployment.model.path == "":
        faults.append(Fault("/model/path", "must not be empty", "remove it, or give a folder"))
    if faults or named is None:
        raise Refused(*faults)
    model_at = "/model" if isinstance(document["model"], str) else "/model/id"
    said = deployment_request.said(deployment, model_at=model_at)
    workspace = _workspace(file)
    return Wanted(
        name=deployment.name or _name(file),
        framework=named,
        request=said.request,
        model_path=_path(deployment.model.path, workspace),
        workspace=workspace,
        pointers=said.pointers,
        source=file,
    )


def _name(file: str) -> str:
    stem = "" if file == documents.STDIN else Path(file).stem
    return _NOT_IN_NAMES.sub("-", stem).strip("._-")[:100] or UNNAMED


def _workspace(file: str) -> Path:
    return Path.cwd() if file == documents.STDIN else Path(file).parent.resolve()


def _path(path: str | None, workspace: Path) -> str | None:
    if path is None:
        return None
    if path == "~" or path.startswith("~/"):
        return os.path.expanduser(path)
    if path in (".", "..") or path.startswith(_PATHS_HERE):
        return os.path.normpath(workspace / path)
    return path
