"""The toy adapter: plans and renders deployments of an engine that does not exist."""

from inferlab_adapters.framework import FrameworkAdapter

from . import plan, render
from .kv_transfer import MECHANISMS
from .options import CATALOGUES, RESERVED_ENV
from .settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    name="oe-adapter-toy",
    version=__version__,
    framework="toy",
    distribution="toy-engine",
    catalogues=CATALOGUES,
    mechanisms=MECHANISMS,
    routers={},
    own_settings=OWN_SETTINGS,
    reserved_env=RESERVED_ENV,
    planning=plan,
    rendering=render,
)
