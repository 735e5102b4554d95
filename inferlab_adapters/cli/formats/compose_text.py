"""YAML for Compose, whose reader takes more plain words for numbers than PyYAML's does.

``1e3`` and ``0o17`` are text to one and numbers to the other, so every text stands in quotes, or
in a block of its own where it has several lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

_OTHER_LINE_ENDS = frozenset("\x85\u2028\u2029")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML falls back to quotes for a text that a block cannot hold, other than for these.
    style = "|" if "\n" in text and _OTHER_LINE_ENDS.isdisjoint(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _mapping(dumper: yaml.SafeDumper, mapping: Mapping[str, Any]) -> yaml.MappingNode:
    pairs = [(_key(key), dumper.represent_data(value)) for key, value in mapping.items()]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=False)


def _key(name: str) -> yaml.ScalarNode:
    """Plain where nobody could take it for anything but a name."""
    plain = re.fullmatch("[A-Za-z_]+", name) and name.lower() not in _WORDS
    return yaml.ScalarNode("tag:yaml.org,2002:str", name, style=None if plain else '"')


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)


def write(data: Mapping[str, Any]) -> str:
    """Block style, keys as they come, no line folded; the same bytes for the same data."""
    text: str = yaml.dump(
        dict(data), Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=math.inf
    )
    return text
