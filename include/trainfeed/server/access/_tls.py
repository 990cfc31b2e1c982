"""TLS of a server and of its clients: version 1.2 or later, with errors that name the file."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError
from trainfeed.server._server_settings import ServerSettings
from trainfeed.server.access._private_files import read_private

__all__ = ["client_context", "common_name", "server_context"]

_MAX_KEY_BYTES: Final = 1 << 20


def server_context(settings: ServerSettings) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None without a certificate.

    Raises:
        ConfigError: A file is missing, is no PEM file, the key is encrypted or open to other
            accounts, or key and certificate do not belong together.
    """
    if settings.certificate is None or settings.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(context, settings.certificate, settings.key)
    if settings.client_ca is not None:
        _load_authorities(context, settings.client_ca)
        # Clients with a token need no certificate; one that is shown is verified.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(
    ca_file: Path | None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return the TLS context of a client, which verifies name and certificate of the server.

    Args:
        ca_file: Authorities to trust; None trusts those of the system.
        certificate: Certificate that the client shows.
        key: Key of the certificate.

    Raises:
        ConfigError: As ``server_context`` raises it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is None:
        context.load_default_certs()
    else:
        _load_authorities(context, ca_file)
    if certificate is not None and key is not None:
        _load_chain(context, certificate, key)
    return context


def common_name(certificate: object) -> str | None:
    """Return the common name of a verified certificate, as ``getpeercert`` gives it."""
    subject = certificate.get("subject", ()) if isinstance(certificate, dict) else ()
    names = [value for part in subject for name, value in part if name == "commonName"]
    # Two names in one subject do not say which of them is meant.
    return names[0] if len(names) == 1 else None


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    if b"ENCRYPTED" in read_private(key, "a private key", max_bytes=_MAX_KEY_BYTES):
        raise ConfigError(f"expected a key without a password in {key}, got an encrypted one")
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ConfigError(
            f"expected a certificate in {certificate} and its key in {key}, both PEM, got"
            f" {error.reason or 'other content'}; nothing was started"
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read the certificate {certificate}: {error.strerror}") from error


def _load_authorities(context: ssl.SSLContext, ca_file: Path) -> None:
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise ConfigError(
            f"expected certificates of authorities in {ca_file}, PEM, got"
            f" {error.reason or 'other content'}"
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read the authorities {ca_file}: {error.strerror}") from error
