"""Why a TensorRT-LLM command and its YAML are as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from inferlab_adapters.allocation import Deployment, Replica
from inferlab_adapters.deployment import RolePlan
from inferlab_adapters.errors import pointer
from inferlab_adapters.launch_files import LaunchFile
from inferlab_adapters.origins import Cause, Origin, Servers, Traced, resolve
from oe_adapter_trtllm import llm_api_options, yaml_keys
from oe_adapter_trtllm.kv_transfer import KeyPath, required
from oe_adapter_trtllm.llm_api_options import ATTENTION_DP
from oe_adapter_trtllm.render import LAUNCHER
from oe_adapter_trtllm.settings import YAML_FILE, YAML_PATCH

PROGRAM: Mapping[str, str] = {
    LAUNCHER: "enters the MPI job that holds the ranks of the replica",
    "python3": "the Python of the serving environment",
    "-m": "runs a module",
    "tensorrt_llm.commands.serve": "trtllm-serve by its module",
    "serve": "spelt out, so that no model is taken for a subcommand",
    "disaggregated": "sends each request to a context and a generation server",
}

_ATTENTION_DATA = Cause(
    "parallelism", "attention/data_parallel_size", "attention in as many copies as tensor ranks"
)

OPTIONS: Mapping[str, Cause] = {
    "served_model_name": Cause("request", "model/served_name", "what clients call the model"),
    "host": Cause("primary", "endpoint/host", "serves HTTP here"),
    "port": Cause("primary", "endpoint/port", "serves HTTP here"),
    "tensor_parallel_size": Cause(
        "parallelism", "outer/tensor_parallel_size", "splits every layer over so many devices"
    ),
    "pipeline_parallel_size": Cause(
        "parallelism", "outer/pipeline_parallel_size", "splits the layers into so many stages"
    ),
    "moe_expert_parallel_size": Cause(
        "parallelism", "experts/expert_parallel_size", "spreads experts inside the tensor group"
    ),
    ATTENTION_DP: _ATTENTION_DATA,
    "gpus_per_node": Cause("allocation", "devices", "the one device that this process sees"),
    "extra_llm_api_options": Cause("allocation", "cache", "the options that are given as YAML"),
}

ENVIRONMENT: Mapping[str, Cause] = {
    "TLLM_TORCH_PROFILER_DIR": Cause("request", "profiling", "where profiles are written"),
}

ROUTER: Mapping[str, Cause] = {
    "-c": Cause("allocation", "cache", "the file that names the servers"),
    "-t": Cause("adapter", "", "loading a large model takes longer than its 180 s"),
    "-r": Cause("adapter", "", "it would cut off answers that take longer than 180 s"),
}
ROUTER_SERVERS: Mapping[str, Servers] = {}

_ROUTER_FILE: Mapping[str, Cause] = {
    "hostname": Cause("allocation", "endpoint/host", "takes requests here"),
    "port": Cause("allocation", "endpoint/port", "takes requests here"),
}
_SERVERS: Mapping[str, Servers] = {
    "context_servers": "prefill",
    "generation_servers": "decode",
}


def file_lines(deployment: Deployment, replica: Replica, file: LaunchFile) -> Iterator[Traced]:
    """The lines of a server's options or of the router's file."""
    from inferlab_adapters import yaml_lines

    role = replica.role
    if role is not None:
        layers = _Layers(deployment, role)
    for line, path in zip(file.text.splitlines(), yaml_lines.paths(file.text), strict=True):
        if role is None:
            yield Traced(line, _router_line(deployment, replica, path))
        else:
            yield Traced(line, layers.origin(replica, path))


def _router_line(deployment: Deployment, replica: Replica, path: KeyPath) -> Origin:
    kind = _SERVERS.get(path[0])
    if kind is None:
        return resolve(_ROUTER_FILE[path[0]], replica, replica.primary)
    role_id = deployment.plan.role(kind).id
    if path[1:2] == ("router",):
        return Origin("request", "/input/routing/policy", "which server a request goes to")
    if path[1:2] == ("urls",) and len(path) == 3:
        server = deployment.of_role(role_id)[int(path[2])].primary
        where = pointer(server.pointer, "endpoint")
        return Origin("allocation", where, f"{kind} server {path[2]} to send requests to")
    where = f"{deployment.plan.role(kind).request.pointer}/declared_replica_count"
    return Origin("request", where, f"the servers of the {kind} role")


class _Layers:
    """What a role's YAML is made of, the layer that wins first."""

    def __init__(self, deployment: Deployment, role: RolePlan) -> None:
        plan, settings = deployment.plan, role.settings
        self._required = required(plan.scope, role.kind)
        self._attention_data = role.layout.attention_data > 1 and ATTENTION_DP not in plan.table
        self._moved = {
            given.path: settings.at(given.name) if given.name in settings.options else ""
            for given in yaml_keys.on_command_line(plan, role)
        }
        self._extra_args = settings.at("extra_args")
        self._patch: Mapping[str, Any] = settings.own.get(YAML_PATCH.name, {})
        self._patch_pointer = settings.at(YAML_PATCH.name)
        path = llm_api_options.source_path(settings)
        self._inputs = list(deployment.inputs)
        self._file = self._inputs.index(path) if path is not None else None
        self._setting = settings.at(YAML_FILE.name)

    def origin(self, replica: Replica, path: KeyPath) -> Origin:
        """The layer that decides a key; of a section, the one that opens it."""
        for at, (_, why) in self._required.items():
            if path == at:
                return Origin("request", "/input/kv_transfer", why)
        if path == (ATTENTION_DP,) and self._attention_data:
            return resolve(_ATTENTION_DATA, replica, replica.primary)
        if path in self._moved:
            where = self._moved[path] or self._extra_args
            return Origin("setting", where, "stands here since its section does")
        if yaml_keys.found(self._patch, path):
            return Origin("setting", pointer(self._patch_pointer, *path), "from the patch")
        inside = next((at for at in self._required if at[: len(path)] == path), None)
        if inside is not None and self._file is None:
            return Origin("request", "/input/kv_transfer", self._required[inside][1])
        if self._file is not None:
            why = f"from {self._inputs[self._file]}, which {self._setting} names"
            return Origin("request", f"/input/render_inputs/{self._file}", why)
        # A list item, or a line that continues a value, belongs to the key above it.
        return self.origin(replica, path[:-1])
