"""What a client shows to a server, and where it may show it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trainfeed.config import service_files
from trainfeed.errors import ConfigError
from trainfeed.server._server_settings import is_loopback
from trainfeed.server.access import client_context, read_private

__all__ = ["Access", "HeldToken", "checked_address"]

_MAX_TOKEN_BYTES: Final = 4096


@dataclass(frozen=True)
class Access:
    """The files by which a client shows itself, and trusts a server.

    Attributes:
        token_file: File with the token; None for ``TRAINFEED_TOKEN_FILE``.
        ca_file: Authorities of the server; None for ``TRAINFEED_CA_FILE``, or those of the system.
        certificate: Certificate of the client, for servers that take one in place of a token.
        key: Key of the certificate.
    """

    token_file: Path | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def token(self) -> str | None:
        """Return the token; None if no file is named.

        Raises:
            ConfigError: The file cannot be read, is open to other accounts, or has no token.
        """
        path = self.token_file or service_files()[0]
        if path is None:
            return None
        data = read_private(path, "a token", max_bytes=_MAX_TOKEN_BYTES)
        words = data.decode("latin-1").split()
        if len(words) != 1 or not words[0].isascii():
            raise ConfigError(
                f"expected one token in {path}, got {len(words)} words; make the file with: umask"
                " 077; trainfeed token new NAME --scopes SCOPES > FILE"
            )
        return words[0]

    def context(self, url: str) -> ssl.SSLContext:
        """Return the TLS settings for an address.

        Raises:
            ConfigError: A file is not usable.
        """
        # Without TLS no authority is needed: reading those of the system takes 50 ms.
        if not url.startswith("https"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return client_context(self.ca_file or service_files()[1], self.certificate, self.key)


class HeldToken:
    """The token of a client, read again when a server refuses it.

    Args:
        access: The file of the token.

    Raises:
        ConfigError: The file is not usable.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._token = access.token()

    def header(self) -> dict[str, str]:
        """Return the header of a request; empty without a token."""
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}

    def is_renewed(self, refused: dict[str, str]) -> bool:
        """Read the file again; return whether its token is not that of a refused header."""
        self._token = self._access.token()
        return self.header() != refused


def checked_address(url: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        ConfigError: The address has another form, or would send a token unencrypted.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError(
            "expected the address of a server as https://HOST[:PORT], got another one"
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError(
            f"expected https:// for {parts.hostname}, which is another machine, got http://;"
            " nothing was sent"
        )
    return url.rstrip("/")
