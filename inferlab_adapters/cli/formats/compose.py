"""A deployment as a Compose file: one service a process, for one machine.

What Compose would interpolate or read as another type is escaped and quoted, so that argv,
environment and launch files come out as they were rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from inferlab_adapters.cli.formats import compose_text, health
from inferlab_adapters.cli.formats.blocks import Block, File, blocks, comment
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault, did_you_mean, one_of, shown

if TYPE_CHECKING:
    from inferlab_adapters.control.prepare import Prepared

IMAGE = "${OE_IMAGE:?set it to an image that holds the engine}"
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NO_PROJECT = re.compile(r"[^a-z0-9_-]+")
# Weights of hundreds of gigabytes are read, and kernels compiled, before an engine answers.
_START_PERIOD = "60m"


def compose(prepared: Prepared, *, machine: str | None = None, image: str | None = None) -> str:
    """The Compose file of a deployment, or of its part on ``machine``.

    Every service runs ``image``; without one, Compose takes it from ``OE_IMAGE`` in its own
    environment, and a router's from ``OE_ROUTER_IMAGE`` where that is set. An engine environment
    of the inventory has no use in a container. Raises :class:`Refused` for several machines
    without ``machine``, a machine without a process, and what is no name of an image.
    """
    every = blocks(prepared)
    names = list(dict.fromkeys(block.machine.name for block in every))
    chosen = _machine(names, machine)
    if image is not None and not _IMAGE.fullmatch(image):
        raise Refused(Fault("--image", f"{shown(image)} is no name of an image"))
    here = [block for block in every if block.machine.name == chosen]
    return _head(prepared, chosen, len(names)) + compose_text.write(
        {
            "name": _project(prepared.wanted.name),
            "services": _services(here, every, image),
            **_configs(file for block in here for file in block.files),
        }
    )


def _machine(names: list[str], wanted: str | None) -> str:
    if wanted is None and len(names) > 1:
        what = f"the deployment is on {len(names)} machines and a Compose file is for one"
        raise Refused(Fault("", what, f"add --machine {one_of(names)}"))
    if wanted is not None and wanted not in names:
        hint = did_you_mean(wanted, names) or f"use {one_of(names)}"
        raise Refused(Fault("--machine", f"{shown(wanted)} runs no process of it", hint))
    return wanted or names[0]


def _head(prepared: Prepared, machine: str, count: int) -> str:
    identity = prepared.plan["integration"]
    lines = [f"Rendered by {identity['adapter_id']} {identity['adapter_version']}"]
    lines[0] += f" for {identity['framework']} {identity['framework_version']}."
    if count > 1:
        lines.append(f"The part on machine {machine}; {count - 1} more are rendered apart.")
    return "".join(f"# {comment(line)}\n" for line in lines)


def _services(here: list[Block], every: list[Block], image: str | None) -> Json:
    names: dict[str, str] = {}
    for block in here:
        name = base = _NO_NAME.sub("-", block.name)
        number = 1
        while name in names.values():
            number += 1
            name = f"{base}-{number}"
        names[block.name] = name
    return {names[block.name]: _service(block, every, names, image) for block in here}


def _service(block: Block, every: list[Block], names: dict[str, str], image: str | None) -> Json:
    checked = health.check(block, every)
    service: dict[str, Any] = {
        "image": _image(block, image),
        "network_mode": "host",
        "ipc": "host",
        "init": True,
        "entrypoint": [],
        "command": [_escaped(token) for token in block.argv],
        "environment": {name: _escaped(value) for name, value in block.env.items()},
        "ulimits": {"memlock": -1, "stack": 67108864},
        "volumes": _volumes(block),
    }
    # An image's own check knows nothing of this command.
    service["healthcheck"] = {"disable": True} if checked is None else _healthcheck(checked)
    if block.files:
        service["configs"] = [
            {"source": _config(file), "target": _escaped(file.path)} for file in block.files
        ]
    waits = [names[name] for name in block.allocation["dependencies"] if name in names]
    if waits:
        service["depends_on"] = {name: {"condition": "service_started"} for name in waits}
    if block.machine.devices is not None and block.allocation["devices"]:
        service["deploy"] = _deploy(block.allocation["devices"])
    return service


def _image(block: Block, image: str | None) -> str:
    named = image or IMAGE
    return named if block.kind != "router" else f"${{OE_ROUTER_IMAGE:-{named}}}"


def _healthcheck(argv: list[str]) -> Json:
    return {
        "test": ["CMD", *map(_escaped, argv)],
        "interval": "10s",
        "timeout": "10s",
        "retries": 3,
        "start_period": _START_PERIOD,
    }


def _volumes(block: Block) -> list[Json]:
    model = block.allocation.get("model_locator", "")
    # A missing model must not come up as an empty folder.
    mounts = [_mount(model, read_only=True, create=False)] if model.startswith("/") else []
    return [*mounts, _mount(block.allocation["cache"], read_only=False, create=True)]


def _mount(path: str, *, read_only: bool, create: bool) -> Json:
    return {
        "type": "bind",
        "source": _escaped(path),
        "target": _escaped(path),
        "read_only": read_only,
        "bind": {"create_host_path": create},
    }


def _deploy(devices: list[int]) -> Json:
    reserved = {
        "driver": "nvidia",
        "device_ids": [str(device) for device in devices],
        "capabilities": ["gpu"],
    }
    return {"resources": {"reservations": {"devices": [reserved]}}}


def _configs(files: Iterable[File]) -> Json:
    contents = {_config(file): {"content": _escaped(file.text)} for file in files}
    return {"configs": contents} if contents else {}


def _config(file: File) -> str:
    """One name for one text: processes that share it share the entry."""
    name = _NO_NAME.sub("-", file.path.rpartition("/")[2])
    return f"{name}-{file.sha256[:16]}"


def _project(name: str) -> str:
    return _NO_PROJECT.sub("-", name.lower()).strip("-_") or "deployment"


def _escaped(text: str) -> str:
    """Text that Compose interpolates to what it was."""
    return text.replace("$", "$$")
