"""The LLM API options of a role: the YAML that a server is given beside its command line.

It is made of a file of the workspace, a patch over it, and what the request needs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inferlab_adapters.deployment import Plan, RolePlan
from inferlab_adapters.errors import Faults, pointer, shown
from inferlab_adapters.settings import Settings
from oe_adapter_trtllm import yaml_keys
from oe_adapter_trtllm.kv_transfer import AGREED, KeyPath, required
from oe_adapter_trtllm.settings import YAML_FILE, YAML_PATCH

if TYPE_CHECKING:
    from inferlab_adapters.allocation import Deployment

ATTENTION_DP = "enable_attention_dp"
FOLDER = ".inferlab"


def source_path(settings: Settings) -> str | None:
    """The file's path from the workspace root; processes run in its folder .inferlab."""
    given = settings.own.get(YAML_FILE.name)
    return None if given is None else posixpath.normpath(posixpath.join(FOLDER, given))


def check_path(settings: Settings, faults: Faults) -> None:
    """Refuse a path that names no file of the workspace."""
    path, where = source_path(settings), settings.at(YAML_FILE.name)
    if path is None:
        return
    given: str = settings.own[YAML_FILE.name]
    if "\0" in given:
        faults.add(where, "must not contain a NUL character")
    elif given.startswith("/"):
        what = f"must be a path from the workspace's {FOLDER} folder, got {shown(given)}"
        faults.add(where, what, "put the file into the workspace")
    elif path == ".." or path.startswith("../"):
        faults.add(where, f"{shown(given)} leaves the workspace", "put the file into it")
    elif posixpath.basename(given) in ("", ".", ".."):
        faults.add(where, f"{shown(given)} names no file")


def check_patches(plan: Plan, faults: Faults) -> None:
    """Refuse what the patches say wrong, as far as it shows without the files."""
    for role in plan.roles:
        where = role.settings.at(YAML_PATCH.name)
        for finding in yaml_keys.findings(_patch(role), plan, role):
            faults.add(pointer(where, *finding.path), finding.what, finding.hint)
    if not faults and not any(source_path(role.settings) for role in plan.roles):
        _check_pair(plan, {role.id: effective(plan, role, {}) for role in plan.roles}, faults)


def check_files(deployment: Deployment, faults: Faults) -> None:
    """Refuse what the files say wrong, each named by its place among the render inputs."""
    # Planning, the more frequent operation, starts without YAML.
    from inferlab_adapters.yaml_text import Unreadable, read

    plan, places = deployment.plan, list(deployment.inputs)
    for role in plan.roles:
        path = source_path(role.settings)
        if path is None:
            continue
        where = pointer("/input/render_inputs", places.index(path))
        try:
            data = read(deployment.inputs[path])
        except Unreadable as error:
            faults.add(where, f"{shown(path)} {error.what}", error.hint)
            continue
        for finding in yaml_keys.findings(data, plan, role):
            what = f"{'.'.join(finding.path)} in {shown(path)} {finding.what}"
            faults.add(where, what, finding.hint)
    if not faults and deployment.inputs:
        _check_pair(plan, {role.id: of_role(deployment, role) for role in plan.roles}, faults)


def of_role(deployment: Deployment, role: RolePlan) -> Mapping[str, Any]:
    """The whole YAML of a role; empty where it needs none."""
    path = source_path(role.settings)
    if path is None:
        return effective(deployment.plan, role, {})
    from inferlab_adapters.yaml_text import read

    return effective(deployment.plan, role, read(deployment.inputs[path]))


def in_yaml(data: Mapping[str, Any]) -> frozenset[str]:
    """Options whose section is in the YAML: they stand there, not on the command line."""
    return frozenset(name for name, path in yaml_keys.IN_SECTION.items() if path[0] in data)


def effective(plan: Plan, role: RolePlan, file: Mapping[str, Any]) -> Mapping[str, Any]:
    """A role's YAML, made from its file, its patch and the needs of the request."""
    data = _merged(file, _patch(role))
    for path, (value, _) in required(plan.scope, role.kind).items():
        data = _merged(data, _nested(path, value))
    if role.layout.attention_data > 1 and ATTENTION_DP not in plan.table:
        data = _merged(data, {ATTENTION_DP: True})
    there = in_yaml(data)
    for given in yaml_keys.on_command_line(plan, role):
        if given.name in there:
            data = _merged(data, _nested(given.path, given.value))
    return data


def _patch(role: RolePlan) -> Mapping[str, Any]:
    patch: Mapping[str, Any] = role.settings.own.get(YAML_PATCH.name, {})
    return patch


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    done = dict(base)
    for key, value in over.items():
        below = done.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            value = _merged(below, value)
        done[key] = value
    return done


def _nested(path: KeyPath, value: Any) -> Mapping[str, Any]:
    for key in reversed(path):
        value = {key: value}
    nested: Mapping[str, Any] = value
    return nested


def _check_pair(plan: Plan, data: Mapping[str, Mapping[str, Any]], faults: Faults) -> None:
    """Refuse two roles that could not read each other's KV cache."""
    if plan.mechanism is None:
        return
    prefill, decode = plan.role("prefill"), plan.role("decode")
    for path, absent in AGREED.items():
        ours, theirs = (yaml_keys.at(data[role.id], path, absent) for role in (prefill, decode))
        if ours != theirs:
            what = f"{'.'.join(path)} is {shown(theirs)} in decode and {shown(ours)} in prefill"
            faults.add(decode.settings.pointer, what, "set the same in both roles")
