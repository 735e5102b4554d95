"""A framework that does not exist: a small catalogue, and an adapter that leaves nothing out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inferlab_adapters.adapter import Adapter, Command
from inferlab_adapters.allocation import Deployment, Rank, Replica
from inferlab_adapters.catalogue import Catalogue, Grammar, Option, Selection
from inferlab_adapters.deployment import (
    Mechanism,
    NativeRouter,
    Plan,
    PortPlan,
    RoleRequest,
    Scope,
    span_names,
)
from inferlab_adapters.errors import AdapterError, Faults
from inferlab_adapters.options import OptionTable, Removed
from inferlab_adapters.parallelism import DeclaredLayout, Layout
from inferlab_adapters.protocol import KvTransferMechanism
from inferlab_adapters.settings import EXTRA_ARGS, EXTRA_ENV, OwnSetting, Reserved, Settings


def option(*names: str, kind: Any = "value", **fields: Any) -> Option:
    """An option; its dest follows from its first name."""
    return Option(names=names, dest=names[0].lstrip("-").replace("-", "_"), kind=kind, **fields)


OPTIONS = (
    option("--tensor-size", "-tp", type="int"),
    option("--rank", "-r", type="int"),
    option("--transfer-config", kind="json", shape="object"),
    option("--max-seqs", "--max-sequences", type="int"),
    option("--max-len", type="human_int"),
    option("--memory", type="human_int_or_auto"),
    option("--ratio", type="float"),
    option("--workers", type="int", none=True),
    option("--dtype", choices=("auto", "half", "float")),
    option("--level", "-l", type="int", choices=("1", "2", "3")),
    option("--template", none=True),
    option("--profile", optional_value=True),
    option("--verbose", "-v", kind="switch"),
    option("--cache", kind="negatable", negative=("--disable-cache", "--no-cache")),
    option("--engine-config", "-cc", kind="json", shape="object"),
    option("--origins", kind="json", shape="array", none=True),
    option("--extra", json=True),
    option("--middleware", kind="list", style="repeat"),
    option("--sizes", kind="list", type="int"),
    option("--tags", kind="list", choices=("a", "b", "-c")),
    option("--old", kind="switch", deprecated=True),
)
OWNED = {
    "tensor_size": "outer.tensor_parallel_size",
    "rank": "the allocations",
    "transfer_config": "kv_transfer",
    "--take-over": "it hands everything to another program",
}
REMOVED = {"--log-requests": Removed(since="fake 0.9", fix="drop it")}
VERSION = "1.2.0"


def table(
    *, exact: bool = True, prefix: bool = True, fold: bool = True, dotted: bool = True
) -> OptionTable:
    """The option table, with a grammar to choose."""
    catalogue = Catalogue(
        version=VERSION,
        grammar=Grammar(prefix_matching=prefix, underscore_folding=fold, dotted_json=dotted),
        options={item.name: item for item in OPTIONS},
    )
    return OptionTable(
        Selection(catalogue, exact),
        owned=OWNED,
        removed=REMOVED,
        aliases={"-O": "level", "-Z": "nothing"},
        minimums={"max_seqs": 1, "workers": 1, "max_len": 1},
    )


OWN_SETTINGS = (
    EXTRA_ARGS,
    EXTRA_ENV,
    OwnSetting(name="dev", kind="boolean", meaning="Opens.", default=False),
    OwnSetting(name="wire", kind="string", meaning="Carries.", choices=("tcp", "rdma")),
    OwnSetting(name="threads", kind="integer", meaning="Sends.", minimum=1),
    OwnSetting(name="further", kind="object", meaning="Adds."),
)
RESERVED = Reserved(names={"CUDA_VISIBLE_DEVICES": "the devices"}, prefixes={"FAKE_": "the fake"})


class FakeAdapter(Adapter):
    """devices = tensor * data; a side channel of one port a data parallel rank."""

    name = "oe-adapter-fake"
    version = "0.0.1"
    framework = "fake"
    distribution = "no-such-distribution"
    nothing = "None"
    mechanisms: Mapping[KvTransferMechanism, Mechanism] = {
        "nixl": Mechanism(builtin="trtllm", link=None, port=None),
        "mooncake": Mechanism(builtin="sglang", link="bootstrap", port="bootstrap"),
    }
    routers: Mapping[str, NativeRouter] = {
        "fake-router": NativeRouter(
            readiness={"kind": "http", "path": "/ready"},
            settings={"policy": "round_robin"},
            ports=("metrics",),
        )
    }
    own_settings = OWN_SETTINGS
    reserved_env = RESERVED

    def option_table(self, framework_version: str) -> OptionTable:
        return table()

    def layout(self, declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
        declared.require(faults, "pipeline", 1, why="fake has no pipeline")
        tensor, data = declared.tensor or 1, declared.attention_data or 1
        return Layout(tensor, 1, tensor, data, 1, tensor, 1, 1, 1, devices=tensor * data)

    def absent_settings(self, scope: Scope, role: RoleRequest) -> Mapping[str, str]:
        return {} if scope.mechanism else {"wire": "nothing is transferred"}

    def complete(
        self, scope: Scope, role: RoleRequest, layout: Layout, checked: Settings, faults: Faults
    ) -> Settings:
        return checked

    def ports(self, scope: Scope, role: RoleRequest, layout: Layout) -> PortPlan:
        side = layout.attention_data
        bootstrap = ("bootstrap",) if scope.mechanism == "mooncake" else ()
        return PortPlan(
            ports=(*bootstrap, *span_names("side", side)),
            primary_ports=("master",),
            spans={"side": side},
        )

    def check_plan(self, planned: Plan, faults: Faults, note: Callable[[str], None]) -> None:
        pass

    def prefix_cache_reset(self, planned: Plan) -> Any:
        return None

    def check_deployment(self, deployment: Deployment, faults: Faults) -> None:
        pass

    def render_rank(self, deployment: Deployment, replica: Replica, rank: Rank) -> Command:
        assert replica.role is not None
        argv = ["fake", rank.model_locator, str(rank.allocation.rank)]
        return Command(argv + replica.role.settings.argv(deployment.plan.table), {})

    def render_router(self, deployment: Deployment, rank: Rank) -> Command:
        plan = deployment.plan
        argv = ["fake-router", str(rank.endpoint.port)]
        for role in plan.roles:
            for replica in deployment.of_role(role.id):
                argv.append(f"{replica.number}:{replica.primary.endpoint.host}")
        return Command(argv, {})


FAKE = FakeAdapter()


def messages(faults: Faults) -> list[str]:
    """The faults that were found, each as its line."""
    try:
        faults.check()
    except AdapterError as error:
        return [str(fault) for fault in error.faults]
    return []
