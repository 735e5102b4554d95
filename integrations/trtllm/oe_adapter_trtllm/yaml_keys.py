"""What the keys of a role's LLM API options may say, beside its request and command line.

Whether YAML or command line wins depends on the version of the engine, so nothing may stand in
both, and nothing that the request decides may stand in the YAML.
Source: tensorrt_llm/llmapi/llm_args.py and tensorrt_llm/commands/serve.py, 1.2.1 to 1.4.0rc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from inferlab_adapters.deployment import Plan, RolePlan
from inferlab_adapters.errors import one_of, shown
from oe_adapter_trtllm.kv_transfer import RUNTIME, TRANSCEIVER, KeyPath, required
from oe_adapter_trtllm.options import OWNED_KEYS, RESERVED_ENV

KV_CACHE = "kv_cache_config"

IN_SECTION: Mapping[str, KeyPath] = {
    "free_gpu_memory_fraction": (KV_CACHE, "free_gpu_memory_fraction"),
    "kv_cache_dtype": (KV_CACHE, "dtype"),
}
"""Options that are keys of a section; up to 1.3.0rc14 a section of the YAML hides them."""

_NUMBERS: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float}
_ELSEWHERE = {**IN_SECTION, "telemetry": ("telemetry_config", "disabled")}
_MOVED_UP = {
    "build_config": "is ignored by the PyTorch backend",
    "pytorch_backend_config": "is no key any more",
}
_GONE = {
    "enable_overlap_scheduler": "say disable_overlap_scheduler, which means the opposite",
    "use_cuda_graph": "say cuda_graph_config",
    "cuda_graph_padding_enabled": "say cuda_graph_config.enable_padding",
    "kv_cache_dtype": "say kv_cache_config.dtype",
}


class Finding(NamedTuple):
    """What is wrong at a key; reported where a person wrote it."""

    path: KeyPath
    what: str
    hint: str = ""


class Given(NamedTuple):
    """An option as a person set it for the command line, and the key that it stands for."""

    spelling: str
    name: str
    path: KeyPath
    value: Any


def findings(data: Mapping[str, Any], plan: Plan, role: RolePlan) -> Iterator[Finding]:
    """Everything wrong with a mapping that a person wrote: the file or the patch."""
    yield from _keys(data)
    yield from _sections(data)
    yield from _transfer(data, plan, role)
    yield from _environment(data, role)
    for given in on_command_line(plan, role):
        if found(data, given.path):
            here, there = shown(at(data, given.path)), shown(given.value)
            what = f"is also set by {given.spelling}: {there} there, {here} here"
            yield Finding(given.path, what, "keep one")


def on_command_line(plan: Plan, role: RolePlan) -> Iterator[Given]:
    """The options of the settings and of the extra arguments."""
    for name, value in role.settings.options.items():
        option = plan.table.options.get(name)
        yield _given(name, name, option.dest if option else name, value)
    for use in plan.table.scan(role.settings.extra_args):
        spelling = use.token.partition("=")[0]
        if use.reading is None:
            name = spelling.lstrip("-").replace("-", "_")
            yield _given(spelling, "", name, list(use.values))
            continue
        option, text = use.reading.option, use.reading.value or "".join(use.values)
        takes_none = option.kind in ("switch", "negatable")
        read = not use.reading.negated if takes_none else _NUMBERS.get(option.type, str)(text)
        yield _given(spelling, option.name, option.dest, read)


def _given(spelling: str, name: str, dest: str, value: Any) -> Given:
    return Given(spelling, name, _ELSEWHERE.get(name, (dest,)), value)


def _keys(data: Mapping[str, Any]) -> Iterator[Finding]:
    for key, value in data.items():
        owner = OWNED_KEYS.get(key.replace("-", "_"))
        if owner:
            yield Finding((key,), f"is decided by {owner}", "remove it")
        elif key in _MOVED_UP:
            inside = one_of(value) if isinstance(value, dict) else ""
            yield Finding((key,), _MOVED_UP[key], f"put {inside or 'its keys'} at the top level")
        elif key in _GONE:
            yield Finding((key,), "is no key any more", _GONE[key])


def _sections(data: Mapping[str, Any]) -> Iterator[Finding]:
    for key in (KV_CACHE, TRANSCEIVER):
        if not isinstance(data.get(key, {}), dict):
            yield Finding((key,), f"must be a mapping, got {shown(data[key])}")


def _transfer(data: Mapping[str, Any], plan: Plan, role: RolePlan) -> Iterator[Finding]:
    if plan.mechanism is None and TRANSCEIVER in data:
        yield Finding((TRANSCEIVER,), "has no use in topology single", "remove it")
    for path, (value, why) in required(plan.scope, role.kind).items():
        here = at(data, path)
        if found(data, path) and (here != value or type(here) is not type(value)):
            yield Finding(path, f"must be {shown(value)}, got {shown(here)}", why)
    if found(data, RUNTIME) and "transceiver_runtime" not in plan.table.features:
        what = f"is unknown to TensorRT-LLM {plan.table.version}, which would not start"
        yield Finding(RUNTIME, what, "remove it")


def _environment(data: Mapping[str, Any], role: RolePlan) -> Iterator[Finding]:
    variables = data.get("env_overrides")
    if not isinstance(variables, dict):
        return
    names, prefixes = RESERVED_ENV.names, RESERVED_ENV.prefixes
    for name in variables:
        path = ("env_overrides", name)
        owner = names.get(name) or next(
            (owner for start, owner in prefixes.items() if name.startswith(start)), None
        )
        if owner:
            yield Finding(path, f"is decided by {owner}", "remove it")
        elif name in role.settings.extra_env:
            there, here = shown(role.settings.extra_env[name]), shown(variables[name])
            yield Finding(path, f"is also in extra_env: {there} there, {here} here", "keep one")


_ABSENT = object()


def at(data: Mapping[str, Any], path: KeyPath, absent: Any = None) -> Any:
    """The value at a path of keys."""
    value: Any = data
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return absent
        value = value[key]
    return value


def found(data: Mapping[str, Any], path: KeyPath) -> bool:
    """Whether there is a value, null included, at a path of keys."""
    return at(data, path, _ABSENT) is not _ABSENT
