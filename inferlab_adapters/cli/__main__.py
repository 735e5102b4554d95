"""``python -m inferlab_adapters.cli``: the same as ``oe``."""

from __future__ import annotations

import sys

from inferlab_adapters.cli.start import main

sys.exit(main())
