"""Bearer tokens: who is let in, and which files hold one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from inferlab_adapters.openengine.auth import BearerToken, read_token
from inferlab_adapters.openengine.files import UnusableFile
from tests.openengine.bare import BOTH, STREAM, UNARY, serving

TOKEN = "s3cret-token"
NOWHERE = "/openengine.v1.Nothing/Nothing"
GOOD = ("authorization", f"Bearer {TOKEN}")


async def _status(channel: Any, method: str, *metadata: tuple[str, str]) -> grpc.StatusCode:
    found = aio.Metadata(*metadata)
    call: Any
    if method == BOTH:
        # The client has sent nothing, and says that nothing comes only where it is let in.
        call = channel.stream_stream(method)(metadata=found, timeout=20)
        if metadata == (GOOD,):
            await call.done_writing()
    elif method == STREAM:
        call = channel.unary_stream(method)(b"", metadata=found)
    else:
        call = channel.unary_unary(method)(b"x", metadata=found)
    if method in (STREAM, BOTH):
        # The status comes behind the last message.
        with suppress(aio.AioRpcError):
            assert len([message async for message in call]) in (0, 3)
    code: grpc.StatusCode = await call.code()
    assert TOKEN not in (await call.details() or "")
    return code


def _statuses(calls: Iterable[tuple[str, tuple[tuple[str, str], ...]]]) -> list[grpc.StatusCode]:
    async def ask() -> list[grpc.StatusCode]:
        async with serving([BearerToken(TOKEN)]) as address, aio.insecure_channel(address) as ch:
            return [await _status(ch, method, *metadata) for method, metadata in calls]

    return asyncio.run(ask())


def test_the_token_opens_methods_of_every_kind() -> None:
    spelled = ("authorization", f"bearer {TOKEN}")
    calls = [(UNARY, (GOOD,)), (STREAM, (GOOD,)), (BOTH, (GOOD,)), (UNARY, (spelled,))]
    assert _statuses(calls) == [grpc.StatusCode.OK] * 4


def test_nothing_else_does() -> None:
    wrong = [
        (),
        (("authorization", f"Bearer {TOKEN}x"),),
        (("authorization", f"Bearer {TOKEN[:-1]}"),),
        (("authorization", "Bearer "),),
        (("authorization", TOKEN),),
        (("authorization", f"Basic {TOKEN}"),),
        (GOOD, GOOD),
        (("x-authorization", f"Bearer {TOKEN}"),),
    ]
    calls = [(UNARY, metadata) for metadata in wrong]
    calls += [(STREAM, ()), (BOTH, ()), (NOWHERE, ())]
    assert _statuses(calls) == [grpc.StatusCode.UNAUTHENTICATED] * len(calls)


def test_the_file_holds_one_word(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert read_token(file) == TOKEN


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b" \n", "is empty"),
        (b"two words", "is not one token"),
        (b"two\nlines", "is not one token"),
        ("schlüssel".encode(), "is not one token"),
        (b"x" * 9000, "is not one token"),
        (b"x" * 1_100_000, "is larger than"),
        (None, "cannot be read: No such file"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UnusableFile, match=said):
        read_token(file)
