"""Checks by name, made one after the other on what is up."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def made(
    checks: Mapping[str, Callable[[T], Awaitable[None]]], subject: T, seconds: float
) -> dict[str, str]:
    """What every check said: nothing, or what went wrong. Each has so many seconds."""
    told = {}
    for name, check in checks.items():
        try:
            asyncio.run(asyncio.wait_for(check(subject), seconds))
            told[name] = ""
        except BaseException:
            told[name] = traceback.format_exc()
    return told
