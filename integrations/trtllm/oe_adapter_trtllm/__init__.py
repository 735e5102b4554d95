"""The TensorRT-LLM adapter: plans and renders TensorRT-LLM deployments."""

from inferlab_adapters.framework import FrameworkAdapter
from oe_adapter_trtllm import plan, render
from oe_adapter_trtllm.kv_transfer import MECHANISMS
from oe_adapter_trtllm.options import CATALOGUES, RESERVED_ENV
from oe_adapter_trtllm.router import ROUTERS
from oe_adapter_trtllm.settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    name="oe-adapter-trtllm",
    version=__version__,
    framework="tensorrt-llm",
    distribution="tensorrt-llm",
    catalogues=CATALOGUES,
    mechanisms=MECHANISMS,
    routers=ROUTERS,
    own_settings=OWN_SETTINGS,
    reserved_env=RESERVED_ENV,
    planning=plan,
    rendering=render,
    readiness_path="/health",
)
