"""The address of a file server, refused where a token would be sent to another place."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from trainfeed.errors import ConfigError

__all__ = ["require_endpoint"]

_FORM: Final = "https://HOST[:PORT], or http://127.0.0.1[:PORT] for this machine"
_ENDPOINT: Final = re.compile(
    r"(https?)://([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/?"
)


def require_endpoint(text: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        ConfigError: The address has another form, or is plain HTTP on another machine. The message
            does not repeat the text, which may have a password.
    """
    found = _ENDPOINT.fullmatch(text)
    if found is None or not 0 < int(found[3] or 443) < 1 << 16:
        raise ConfigError(f"expected an endpoint {_FORM}, without user, path or query")
    if found[1] == "http" and not _is_loopback(found[2].strip("[]")):
        raise ConfigError(
            f"expected https for the endpoint {found[2]}, which is another machine, got http"
        )
    return text.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
