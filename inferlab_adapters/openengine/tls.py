"""Transport security from PEM files: the server's own certificate, and whom it asks for one."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from inferlab_adapters.openengine.files import UnusableFile, read


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """``client_ca``: clients must show a certificate that one of these authorities signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """The credentials for a listening port. Raises :class:`UnusableFile`.

    gRPC itself would take any bytes and fail every handshake.
    """
    certificate, key = read(files.certificate), read(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except _Encrypted:
        what = f"{files.key} is encrypted; give the key without a passphrase"
        raise UnusableFile(what) from None
    except (ssl.SSLError, ValueError) as error:
        what = f"{files.certificate} and {files.key} are no PEM certificate and its key"
        raise UnusableFile(f"{what}: {_reason(error)}") from None
    authorities = None
    if files.client_ca is not None:
        authorities = read(files.client_ca)
        try:
            context.load_verify_locations(files.client_ca)
        except (ssl.SSLError, ValueError) as error:
            what = f"{files.client_ca} holds no PEM certificates: {_reason(error)}"
            raise UnusableFile(what) from None
    return grpc.ssl_server_credentials(
        [(key, certificate)],
        root_certificates=authorities,
        require_client_auth=authorities is not None,
    )


class _Encrypted(Exception):
    """The key asks for a passphrase."""


def _no_password() -> str:
    # Without this OpenSSL would ask on the terminal.
    raise _Encrypted


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or str(error)
    return str(reason).replace("_", " ").lower()
