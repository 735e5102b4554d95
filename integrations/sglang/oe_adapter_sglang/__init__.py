"""The SGLang adapter: plans and renders SGLang deployments."""

from inferlab_adapters.framework import Declarations, FrameworkAdapter, Identity
from oe_adapter_sglang import plan, render
from oe_adapter_sglang.kv_transfer import MECHANISMS
from oe_adapter_sglang.options import CATALOGUES, RESERVED_ENV
from oe_adapter_sglang.router import ROUTERS
from oe_adapter_sglang.settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    Identity("oe-adapter-sglang", __version__, framework="sglang", distribution="sglang"),
    Declarations(CATALOGUES, MECHANISMS, ROUTERS, OWN_SETTINGS, RESERVED_ENV),
    planning=plan,
    rendering=render,
    explaining="oe_adapter_sglang.explain",
    real_parser="oe_adapter_sglang.real_parser",
)
