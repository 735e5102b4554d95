"""YAML text, read as ``yaml.safe_load`` reads it but strictly, and written the same every time.

``yaml.safe_load``, with which engines read, keeps the last of two equal keys, takes dates for
dates and follows anchors without end; here that is refused, with the line. What is written loads
back to the same data.

Import this only where there is YAML to read or write: planning starts without it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

import yaml

from inferlab_adapters.strict_json import is_unicode

MAX_LENGTH = 1 << 18
MAX_VALUES = 100_000
MAX_DEPTH = 50
MAX_DIGITS = 100

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str"))
_NUMBERS = frozenset({f"{_TAG}int", f"{_TAG}float"})
_MERGE = f"{_TAG}merge"
# A reader takes these for line ends, unless they are escaped in double quotes.
_LINE_ENDS = frozenset("\n\x85\u2028\u2029")


class Unreadable(Exception):
    """A text that two readers could understand differently: what is wrong, and what to do."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint


@lru_cache(maxsize=16)
def read(text: str) -> dict[str, Any]:
    """The mapping that a text holds; an empty text holds an empty one. Do not change it."""
    if len(text) > MAX_LENGTH:
        raise Unreadable(f"is over {MAX_LENGTH} characters")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None or root.tag == f"{_TAG}null":
            return {}
        return _Walk(loader).mapping(root, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise Unreadable(f"{line}is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise Unreadable(f"is not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise Unreadable(f"is nested over {MAX_DEPTH} deep") from None


class _Walk:
    """Nodes to plain data, counting them, since an anchor lets a few stand for many."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._left = MAX_VALUES

    def mapping(self, node: yaml.Node, path: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode) or node.tag != f"{_TAG}map":
            _refuse(node, path, "must be a mapping")
        self._count(node, path)
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                # Of several merged mappings the first one counts, as in yaml.safe_load.
                several = isinstance(value_node, yaml.SequenceNode)
                for source in value_node.value[::-1] if several else [value_node]:
                    merged |= self.mapping(source, path)
                continue
            key = self._key(key_node, path)
            if key in own:
                _refuse(key_node, (*path, key), "is given twice", "keep one")
            own[key] = self._value(value_node, (*path, key))
        return merged | own

    def _key(self, node: yaml.Node, path: tuple[str, ...]) -> str:
        if node.tag != f"{_TAG}str" or not isinstance(node, yaml.ScalarNode):
            text = node.value if isinstance(node, yaml.ScalarNode) else "a collection"
            _refuse(node, (*path, str(text)), "is a key that is no text", "quote it")
        return str(self._scalar(node, path))

    def _count(self, node: yaml.Node, path: tuple[str, ...]) -> None:
        self._left -= 1
        if self._left < 0:
            _refuse(node, path, f"brings it over {MAX_VALUES} values", "write less by anchors")

    def _value(self, node: yaml.Node, path: tuple[str, ...]) -> Any:
        self._count(node, path)
        if len(path) > MAX_DEPTH:
            _refuse(node, path[:3], f"is nested over {MAX_DEPTH} deep, or holds itself")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._value(item, (*path, str(index))) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: tuple[str, ...]) -> Any:
        if node.tag not in _SCALARS:
            _refuse(node, path, f"is of the type {node.tag.removeprefix(_TAG)}", "quote it")
        if node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
            _refuse(node, path, f"is a number of over {MAX_DIGITS} characters")
        try:
            value = self._loader.construct_object(node)
        except (ValueError, LookupError):
            _refuse(node, path, "does not read as what its tag says")
        if isinstance(value, float) and not math.isfinite(value):
            _refuse(node, path, "is not a finite number")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            _refuse(node, path, "does not fit in 64 signed bits")
        if isinstance(value, str) and not is_unicode(value):
            _refuse(node, path, "holds a lone surrogate, which is no Unicode text")
        return value


def _refuse(node: yaml.Node, path: tuple[str, ...], what: str, hint: str = "") -> NoReturn:
    name = ".".join(path).encode("utf-8", "replace").decode("utf-8")
    where = f"{name} " if name else ""
    raise Unreadable(f"line {node.start_mark.line + 1}: {where}{what}", hint)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if _LINE_ENDS.isdisjoint(text) else '"'
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _text)


def write(data: Mapping[str, Any]) -> str:
    """Block style, keys sorted, one line a value; the same bytes for the same data."""
    # All ranks of a role share one text, so it is made once.
    return _write(json.dumps(data, sort_keys=True))


@lru_cache(maxsize=16)
def _write(canonical: str) -> str:
    text: str = yaml.dump(
        json.loads(canonical),
        Dumper=_Dumper,
        default_flow_style=False,
        allow_unicode=True,
        width=math.inf,
    )
    return text
