"""The settings of an MLflow tracking server: the installation's, not those of a data set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlsplit

from trainfeed.errors import ConfigError
from trainfeed.server import is_loopback

__all__ = ["MlflowSettings"]

_KNOWN: Final = ("url", "token", "username", "password", "ca_file", "timeout_s")
_TEXTS: Final = _KNOWN[:-1]
_SECRETS: Final = frozenset({"token", "password"})
_TIMEOUT_S: Final = 10.0
_MOST_S: Final = 600.0
_REMEDY: Final = (
    "correct it in the file of TRAINFEED_TRACKERS, in Airflow in the extras of the connection;"
    " nothing was started"
)


@dataclass(frozen=True)
class MlflowSettings:
    """Address and credentials of a tracking server.

    Attributes:
        url: URL of the server, without a slash at its end; with credentials ``https://``, or
            ``http://`` for this machine.
        token: Bearer token; None for none.
        username: Name for basic authentication; None for none.
        password: Password for basic authentication.
        ca_file: Certificates of the server's authority; None for those of the system.
        timeout_s: Longest time of one delivery, over all its requests.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    timeout_s: float = _TIMEOUT_S

    @classmethod
    def of(cls, trackers: Mapping[str, Mapping[str, Any]], connection: str) -> Self:
        """Return the settings of a connection.

        Args:
            trackers: Settings by connection id.
            connection: The id.

        Raises:
            ConfigError: There are none, or one is wrong; the message has no values, which may be
                secrets.
        """
        if connection not in trackers:
            known = ", ".join(sorted(trackers)) or "no tracking server"
            raise ConfigError(
                f"expected settings of the tracking server {connection!r}, got none; known here:"
                f" {known}; add them: {connection}: {{url: 'https://mlflow.example'}}; {_REMEDY}"
            )
        found = dict(trackers[connection])
        _check(found, connection)
        return cls(**{**found, "url": found["url"].rstrip("/")})


def _check(found: Mapping[str, Any], connection: str) -> None:
    def refuse(what: str) -> ConfigError:
        return ConfigError(f"expected {what} in the settings of {connection!r}; {_REMEDY}")

    if unknown := sorted(found.keys() - set(_KNOWN)):
        raise refuse(f"only {', '.join(_KNOWN)}, got {', '.join(map(str, unknown))}")
    for name in _TEXTS:
        if name in found and (not isinstance(found[name], str) or not found[name].isprintable()):
            raise refuse(f"{name} as a text without control characters")
    url = urlsplit(found.get("url", ""))
    is_plain = not (url.query or url.fragment or url.username or url.password)
    if url.scheme not in {"http", "https"} or not url.hostname or not is_plain:
        raise refuse("url as http://host[:port][/path] or https://…, without credentials")
    if ("username" in found) != ("password" in found) or {"token", "username"} <= found.keys():
        raise refuse("token, or username with password")
    if found.keys() & _SECRETS and url.scheme == "http" and not is_loopback(url.hostname):
        raise refuse(f"https:// for {url.hostname}, because credentials go to another machine,")
    seconds = found.get("timeout_s", _TIMEOUT_S)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or not 0 < seconds <= _MOST_S:
        raise refuse(f"timeout_s as seconds above 0, at most {_MOST_S:g}")
