"""The vLLM adapter: plans and renders vLLM deployments."""

from inferlab_adapters.framework import Declarations, FrameworkAdapter, Identity
from oe_adapter_vllm import plan, render
from oe_adapter_vllm.kv_transfer import MECHANISMS
from oe_adapter_vllm.options import CATALOGUES, RESERVED_ENV
from oe_adapter_vllm.router import ROUTERS
from oe_adapter_vllm.settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    Identity("oe-adapter-vllm", __version__, framework="vllm", distribution="vllm"),
    Declarations(CATALOGUES, MECHANISMS, ROUTERS, OWN_SETTINGS, RESERVED_ENV),
    planning=plan,
    rendering=render,
    explaining="oe_adapter_vllm.explain",
    real_parser="oe_adapter_vllm.real_parser",
    engine_backend="oe_adapter_vllm.engine",
    nothing="None",
)
