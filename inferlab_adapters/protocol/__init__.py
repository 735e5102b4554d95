"""The messages of the framework integration protocol, version 6, that an adapter handles.

The models are generated from the schema and live in one module a direction. A name loads its
module when it is first asked for, so that planning never pays for the models of rendering. An
adapter reads requests through these models and writes the dictionaries of ``protocol.answers``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferlab_adapters.protocol._setting_value import SettingValue
    from inferlab_adapters.protocol._v6 import (
        KvTransferMechanism,
        Parallelism,
        ParallelismAttention,
        ParallelismExperts,
        ParallelismOuter,
        PlanServeInput,
        PlanServeRequest,
        ProtocolVersion,
        ServeModelInput,
        ServeRoleInput,
        ServeRoleKind,
        ServeTopology,
        WireModel,
    )
    from inferlab_adapters.protocol._v6_render import (
        AdapterRequest,
        AllocationLaunch,
        BootstrapLink,
        BuiltinRouterKind,
        DirectRouting,
        EndpointAssignment,
        HttpReadiness,
        HttpTargetRegistryProbe,
        InferlabBuiltinRouting,
        IntegrationNativeRouting,
        KvTransferLink,
        LocalLaunch,
        ProcessAliveReadiness,
        ReadinessProbe,
        RenderServeInput,
        RenderServeRequest,
        RequestRoutingLink,
        RoutingResult,
        ServeProcessAllocation,
        ServeRoleLink,
        ServeRoleResult,
        SideChannelLink,
        SshLaunch,
        SuppliedRenderInput,
        TargetEndpointScheme,
    )
    from inferlab_adapters.protocol._v6_response import (
        AdapterError,
        AdapterErrorCode,
        AdapterResponse,
        AdapterResult,
        CaptureControlRequirement,
        CaptureTargetRequirement,
        EndpointProtocol,
        EndpointRequirement,
        ErrorResponse,
        HttpActionSpec,
        HttpMethod,
        IntegrationIdentity,
        LaunchFileDeclaration,
        OkResponse,
        PlanServeAdapterResult,
        PlanServeResult,
        ProcessSpec,
        RenderedServeProcess,
        RenderInputDeclaration,
        RenderServeAdapterResult,
        RenderServeResult,
        ServeReplicaRequirement,
    )

__all__ = [
    "AdapterError",
    "AdapterErrorCode",
    "AdapterRequest",
    "AdapterResponse",
    "AdapterResult",
    "AllocationLaunch",
    "BootstrapLink",
    "BuiltinRouterKind",
    "CaptureControlRequirement",
    "CaptureTargetRequirement",
    "DirectRouting",
    "EndpointAssignment",
    "EndpointProtocol",
    "EndpointRequirement",
    "ErrorResponse",
    "HttpActionSpec",
    "HttpMethod",
    "HttpReadiness",
    "HttpTargetRegistryProbe",
    "InferlabBuiltinRouting",
    "IntegrationIdentity",
    "IntegrationNativeRouting",
    "KvTransferLink",
    "KvTransferMechanism",
    "LaunchFileDeclaration",
    "LocalLaunch",
    "OkResponse",
    "Parallelism",
    "ParallelismAttention",
    "ParallelismExperts",
    "ParallelismOuter",
    "PlanServeAdapterResult",
    "PlanServeInput",
    "PlanServeRequest",
    "PlanServeResult",
    "ProcessAliveReadiness",
    "ProcessSpec",
    "ProtocolVersion",
    "ReadinessProbe",
    "RenderInputDeclaration",
    "RenderServeAdapterResult",
    "RenderServeInput",
    "RenderServeRequest",
    "RenderServeResult",
    "RenderedServeProcess",
    "RequestRoutingLink",
    "RoutingResult",
    "ServeModelInput",
    "ServeProcessAllocation",
    "ServeReplicaRequirement",
    "ServeRoleInput",
    "ServeRoleKind",
    "ServeRoleLink",
    "ServeRoleResult",
    "ServeTopology",
    "SettingValue",
    "SideChannelLink",
    "SshLaunch",
    "SuppliedRenderInput",
    "TargetEndpointScheme",
    "WireModel",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in ("_v6", "_v6_render", "_v6_response"):
            found = vars(import_module(f".{module}", __name__))
            if name in found:
                return globals().setdefault(name, found[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
