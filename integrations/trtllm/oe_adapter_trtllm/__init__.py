"""The TensorRT-LLM adapter: plans and renders TensorRT-LLM deployments."""

from inferlab_adapters.framework import Declarations, FrameworkAdapter, Identity
from oe_adapter_trtllm import plan, render
from oe_adapter_trtllm.kv_transfer import MECHANISMS
from oe_adapter_trtllm.options import CATALOGUES, RESERVED_ENV
from oe_adapter_trtllm.router import ROUTERS
from oe_adapter_trtllm.settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    Identity(
        "oe-adapter-trtllm", __version__, framework="tensorrt-llm", distribution="tensorrt-llm"
    ),
    Declarations(CATALOGUES, MECHANISMS, ROUTERS, OWN_SETTINGS, RESERVED_ENV),
    planning=plan,
    rendering=render,
    explaining="oe_adapter_trtllm.explain",
    real_parser="oe_adapter_trtllm.real_parser",
    readiness_path="/health",
)
