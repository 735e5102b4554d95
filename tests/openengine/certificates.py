"""Certificates for tests, made by the openssl program."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("no openssl program to make certificates with")
        folder.mkdir()
        self._folder = folder
        self.pair = Pair(certificate=folder / "ca.pem", key=folder / "ca.key")
        _new(self.pair, "/CN=test authority", "basicConstraints=critical,CA:TRUE")

    @property
    def certificate(self) -> Path:
        """What those who trust it need."""
        return self.pair.certificate

    def sign(self, name: str) -> Pair:
        """A certificate for 127.0.0.1, for servers and clients."""
        pair = Pair(certificate=self._folder / f"{name}.pem", key=self._folder / f"{name}.key")
        by = ["-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)]
        _new(pair, f"/CN={name}", "subjectAltName=IP:127.0.0.1,DNS:localhost", *by)
        return pair


def _new(pair: Pair, subject: str, extension: str, *more: str) -> None:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(pair.key), "-out", str(pair.certificate)]
    command = ["openssl", "req", "-x509", *curve, *files, "-days", "2", "-subj", subject]
    subprocess.run([*command, "-addext", extension, *more], check=True, capture_output=True)
