"""The SGLang adapter: plans and renders SGLang deployments."""

from inferlab_adapters.framework import FrameworkAdapter
from oe_adapter_sglang import plan, render
from oe_adapter_sglang.kv_transfer import MECHANISMS
from oe_adapter_sglang.options import CATALOGUES, RESERVED_ENV
from oe_adapter_sglang.router import ROUTERS
from oe_adapter_sglang.settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    name="oe-adapter-sglang",
    version=__version__,
    framework="sglang",
    distribution="sglang",
    catalogues=CATALOGUES,
    mechanisms=MECHANISMS,
    routers=ROUTERS,
    own_settings=OWN_SETTINGS,
    reserved_env=RESERVED_ENV,
    planning=plan,
    rendering=render,
)
