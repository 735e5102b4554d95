"""The JSON Schema of the wire protocol: in an installed distribution, and in a checkout."""

from __future__ import annotations

from pathlib import Path

NAME = "adapter-protocol-v6.schema.json"

_PACKAGE = Path(__file__).parent
# A wheel carries the file inside the package; a checkout has it in schema/ at its root.
_PLACES = (_PACKAGE / NAME, _PACKAGE.parent / "schema" / NAME)


def wire_schema() -> str:
    """The text of the committed schema. FileNotFoundError where an installation lost it."""
    found = next((place for place in _PLACES if place.is_file()), _PLACES[0])
    return found.read_text(encoding="utf-8")
