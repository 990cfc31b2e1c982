"""Settings of a server that is none of trainfeed: its address, credentials and patience.

A schema registry and a tracking server are such servers. Their settings are those of the
installation, in a file of its own or in the extras of a connection of Airflow.
"""

from __future__ import annotations

import base64
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import SplitResult, urlsplit

from trainfeed.errors import ConfigError
from trainfeed.serving.server.access import client_context
from trainfeed.serving.server.settings import is_loopback

_TEXTS: Final = ("url", "token", "username", "password", "ca_file", "certificate", "key")
_KNOWN: Final = (*_TEXTS, "timeout_s")
_SECRETS: Final = frozenset({"token", "password"})
_TIMEOUT_S: Final = 10.0
_MOST_S: Final = 600.0


@dataclass(frozen=True)
class HttpSettings:
    """Address and credentials of a server.

    Attributes:
        url: URL of the server, without a slash at its end; with credentials ``https://``, or
            ``http://`` for this machine.
        token: Bearer token; None for none.
        username: Name for basic authentication; None for none.
        password: Password for basic authentication.
        ca_file: Certificates of the server's authority; None for those of the system.
        certificate: Certificate that the client shows; None for none.
        key: Key of the certificate.
        timeout_s: Longest time of one request of a registry, in seconds; of one delivery to a
            tracking server, over all its requests.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    timeout_s: float = _TIMEOUT_S

    @classmethod
    def of(cls, found: Mapping[str, Any], connection: str, remedy: str) -> Self:
        """Return the settings of a connection.

        Args:
            found: What the installation says about it.
            connection: Id of the connection, for messages.
            remedy: Where a setting is corrected, for messages.

        Raises:
            ConfigError: One is wrong; the message has no values, which may be secrets.
        """
        _check(found, connection, remedy)
        return cls(**{**found, "url": found["url"].rstrip("/")})

    def authorization(self) -> dict[str, str]:
        """Return the header with the credentials; empty without any."""
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token}"}
        if self.username is None:
            return {}
        pair = f"{self.username}:{self.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for ``http://``.

        Raises:
            ConfigError: A file of certificates cannot be read.
        """
        if not self.url.startswith("https"):
            return None
        files = (self.ca_file, self.certificate, self.key)
        return client_context(*(None if each is None else Path(each) for each in files))


def named_settings(
    known: Mapping[str, Mapping[str, Any]], connection: str, kind: str, advice: str
) -> Mapping[str, Any]:
    """Return what the installation says about a connection.

    Args:
        known: What it says about each, by connection id.
        connection: The id.
        kind: What the connection leads to, for messages.
        advice: How one is added, for messages.

    Raises:
        ConfigError: It says nothing; the message has the ids alone.
    """
    if connection not in known:
        names = ", ".join(sorted(known)) or f"no {kind}"
        raise ConfigError(
            f"expected settings of the {kind} {connection!r}, got none; known here: {names};"
            f" {advice}"
        )
    return known[connection]


def _check(found: Mapping[str, Any], connection: str, remedy: str) -> None:
    def refuse(what: str) -> ConfigError:
        return ConfigError(f"expected {what} in the settings of {connection!r}; {remedy}")

    if unknown := sorted(found.keys() - set(_KNOWN)):
        raise refuse(f"only {', '.join(_KNOWN)}, got {', '.join(map(str, unknown))}")
    for name in _TEXTS:
        if name in found and (not isinstance(found[name], str) or not found[name].isprintable()):
            raise refuse(f"{name} as a text without control characters")
    url = _plain_url(found.get("url", ""))
    if url is None or url.hostname is None:
        raise refuse("url as http://host[:port][/path] or https://…, without credentials")
    if ("username" in found) != ("password" in found) or {"token", "username"} <= found.keys():
        raise refuse("token, or username with password")
    if ("certificate" in found) != ("key" in found):
        raise refuse("certificate with key")
    if found.keys() & _SECRETS and url.scheme == "http" and not is_loopback(url.hostname):
        raise refuse(f"https:// for {url.hostname}, because credentials go to another machine,")
    seconds = found.get("timeout_s", _TIMEOUT_S)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or not 0 < seconds <= _MOST_S:
        raise refuse(f"timeout_s as seconds above 0, at most {_MOST_S:g}")


def _plain_url(text: str) -> SplitResult | None:
    """Return the parts of the URL of a server; None if it is none, or has more than its address."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    # A password with a slash ends what is read as the host.
    is_plain = not (url.query or url.fragment or url.username or url.password or "@" in url.path)
    is_one = url.scheme in {"http", "https"} and bool(url.hostname) and port != 0
    return url if is_one and is_plain else None
