"""Options that SGLang dropped and that templates still pass."""

from __future__ import annotations

from inferlab_adapters.options import Removed

REMOVED: dict[str, Removed] = {}
