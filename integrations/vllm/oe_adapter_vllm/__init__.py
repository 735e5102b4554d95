"""The vLLM adapter: plans and renders vLLM deployments."""

from inferlab_adapters.framework import FrameworkAdapter
from oe_adapter_vllm import plan, render
from oe_adapter_vllm.kv_transfer import MECHANISMS
from oe_adapter_vllm.options import CATALOGUES, RESERVED_ENV
from oe_adapter_vllm.router import ROUTERS
from oe_adapter_vllm.settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    name="oe-adapter-vllm",
    version=__version__,
    framework="vllm",
    distribution="vllm",
    catalogues=CATALOGUES,
    mechanisms=MECHANISMS,
    routers=ROUTERS,
    own_settings=OWN_SETTINGS,
    reserved_env=RESERVED_ENV,
    planning=plan,
    rendering=render,
    nothing="None",
)
