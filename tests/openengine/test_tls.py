"""TLS and mTLS: who gets through, and which files are refused before anything listens."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from inferlab_adapters.openengine.files import UnusableFile
from inferlab_adapters.openengine.tls import TlsFiles, server_credentials
from tests.openengine.bare import UNARY, serving
from tests.openengine.certificates import Authority, Pair


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours") / "ca")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("foreign") / "ca")


@pytest.fixture(scope="module")
def server(ours: Authority) -> Pair:
    return ours.sign("server")


def _files(pair: Pair, client_ca: Path | None = None) -> TlsFiles:
    return TlsFiles(certificate=pair.certificate, key=pair.key, client_ca=client_ca)


def _let_in(files: TlsFiles, trusted: Authority | None, shown: Pair | None = None) -> bool:
    async def ask() -> grpc.StatusCode:
        async with serving(credentials=server_credentials(files)) as address:
            if trusted is None:
                opened = aio.insecure_channel(address)
            else:
                credentials = grpc.ssl_channel_credentials(
                    trusted.certificate.read_bytes(),
                    shown.key.read_bytes() if shown else None,
                    shown.certificate.read_bytes() if shown else None,
                )
                opened = aio.secure_channel(address, credentials)
            async with opened:
                channel: Any = opened
                call = channel.unary_unary(UNARY)(b"x", timeout=20)
                code: grpc.StatusCode = await call.code()
                return code

    code = asyncio.run(ask())
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
    return code is grpc.StatusCode.OK


def test_a_client_that_trusts_the_authority_gets_through(ours: Authority, server: Pair) -> None:
    assert _let_in(_files(server), ours)


def test_without_trust_or_without_tls_none_does(foreign: Authority, server: Pair) -> None:
    assert not _let_in(_files(server), foreign)
    assert not _let_in(_files(server), None)


def test_mutual_tls_wants_a_certificate_of_the_named_authority(
    ours: Authority, foreign: Authority, server: Pair
) -> None:
    files = _files(server, ours.certificate)
    assert _let_in(files, ours, ours.sign("client"))
    assert not _let_in(files, ours)
    assert not _let_in(files, ours, foreign.sign("client"))


def test_files_that_cannot_serve_are_refused(ours: Authority, server: Pair, tmp_path: Path) -> None:
    other = ours.sign("other")
    text = tmp_path / "text"
    text.write_text("no certificate")
    encrypted = tmp_path / "encrypted.key"
    command = ["openssl", "pkey", "-in", str(server.key), "-aes256", "-passout", "pass:x"]
    subprocess.run([*command, "-out", str(encrypted)], check=True, capture_output=True)
    missing = tmp_path / "missing"

    def said(certificate: Path, key: Path, client_ca: Path | None = None) -> str:
        with pytest.raises(UnusableFile) as refused:
            server_credentials(TlsFiles(certificate=certificate, key=key, client_ca=client_ca))
        (line,) = str(refused.value).splitlines()
        return line

    unpaired = said(server.certificate, other.key)
    assert unpaired.startswith(f"{server.certificate} and {other.key} are no PEM certificate")
    assert "key values mismatch" in unpaired
    assert str(text) in said(text, server.key)
    assert said(server.certificate, encrypted).startswith(f"{encrypted} is encrypted")
    assert said(missing, server.key).startswith(f"{missing} cannot be read")
    no_authority = said(server.certificate, server.key, text)
    assert no_authority.startswith(f"{text} holds no PEM certificates")
