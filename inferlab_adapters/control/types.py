"""Names that every part of the control plane shares."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object of the wire protocol: a request, a plan, an allocation, a rendered process."""
