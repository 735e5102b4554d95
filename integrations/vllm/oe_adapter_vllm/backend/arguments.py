"""The command line that an engine was started with, as far as it says what the engine is.

Source (vLLM 0.32.0): vllm/engine/arg_utils.py; ``-`` and ``_`` are the same in names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-dpn": "data_parallel_rank",
    "-dpr": "data_parallel_start_rank",
    "-dcp": "decode_context_parallel_size",
}


class EngineArguments:
    """Options by their names with ``_``; the last one of a name counts.

    ``known`` is false for an engine whose command line nobody told: then nothing follows from an
    option that is not there.
    """

    def __init__(self, argv: Sequence[str] | None) -> None:
        self.known = argv is not None
        self._values: dict[str, str] = {}
        waiting = ""
        for word in argv or ():
            if not word.startswith("-") or word.lstrip("-")[:1].isdigit():
                if waiting:
                    self._values[waiting] = word
                waiting = ""
                continue
            name, equals, value = word.partition("=")
            waiting = _SHORT.get(name, name.lstrip("-").replace("-", "_"))
            self._values[waiting] = value
            if equals:
                waiting = ""

    def text(self, name: str) -> str:
        """The value, or the empty text."""
        return self._values.get(name, "")

    def has(self, name: str) -> bool:
        """Whether the option is there, with a value or without."""
        return name in self._values

    def number(self, name: str, default: int | None = None) -> int | None:
        """The value; ``default`` where the command line is known and does not say."""
        text = self._values.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
        return default if self.known and not text else None

    def mapping(self, name: str) -> dict[str, Any]:
        """A JSON option with its dotted children merged in; empty where it is no JSON object."""
        try:
            read = json.loads(self._values.get(name) or "{}")
        except ValueError:
            read = {}
        merged: dict[str, Any] = dict(read) if isinstance(read, dict) else {}
        for key, value in self._values.items():
            parent, dot, child = key.partition(".")
            if dot and parent == name:
                merged[child] = value
        return merged
