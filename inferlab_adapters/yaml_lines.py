"""Which key each line of a YAML text belongs to."""

from __future__ import annotations

import yaml


def paths(text: str) -> list[tuple[str, ...]]:
    """The key path of every line, list items by their index; empty where no key has begun.

    A line on which several keys begin belongs to the deepest, one that continues a value to the
    key of that value. ``text`` must be YAML that was read before.
    """
    starts: dict[int, tuple[str, ...]] = {}
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        _collect(root, (), starts)
    found: list[tuple[str, ...]] = []
    for number in range(len(text.splitlines())):
        found.append(starts.get(number, found[-1] if found else ()))
    return found


def _collect(node: yaml.Node, path: tuple[str, ...], starts: dict[int, tuple[str, ...]]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            starts[key.start_mark.line] = below
            _collect(value, below, starts)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            below = (*path, str(index))
            starts[item.start_mark.line] = below
            _collect(item, below, starts)
