"""Toy's command line: who owns which option, and the table for a version."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from inferlab_adapters.catalogue import select
from inferlab_adapters.environment import CACHE_VARIABLES, DEVICE_VARIABLES
from inferlab_adapters.options import OptionTable
from inferlab_adapters.ownership import CACHE, ENDPOINT, PORTS, RANKS, SERVED_NAME, TENSOR
from inferlab_adapters.settings import Reserved

CATALOGUES = Path(__file__).with_name("catalogue")
OWNED = {
    "served_name": SERVED_NAME,
    "host": ENDPOINT,
    "port": ENDPOINT,
    "tensor_size": TENSOR,
    "rank": RANKS,
    "ranks": RANKS,
    "master": PORTS,
    "transfer_role": "the kind of the role",
}
RESERVED_ENV = Reserved(
    names={**DEVICE_VARIABLES, **CACHE_VARIABLES, "TOY_CACHE": CACHE},
    prefixes={"TOY_SIDE_CHANNEL_": PORTS},
)


@lru_cache(maxsize=8)
def option_table(framework_version: str) -> OptionTable:
    """The options of a version; the newest catalogue's when it is unavailable."""
    return OptionTable(select(CATALOGUES, framework_version), owned=OWNED, removed={})
