"""The toy adapter: plans and renders deployments of an engine that does not exist."""

from inferlab_adapters.framework import Declarations, FrameworkAdapter, Identity

from . import plan, render
from .kv_transfer import MECHANISMS
from .options import CATALOGUES, RESERVED_ENV
from .settings import OWN_SETTINGS

__version__ = "0.1.0"

ADAPTER = FrameworkAdapter(
    Identity("oe-adapter-toy", __version__, framework="toy", distribution="toy-engine"),
    Declarations(CATALOGUES, MECHANISMS, {}, OWN_SETTINGS, RESERVED_ENV),
    planning=plan,
    rendering=render,
)
