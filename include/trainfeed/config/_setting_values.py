"""Values of settings: read from arguments and variables, and checked as places."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from trainfeed.datacenters import is_shared, local_source, shared_place
from trainfeed.errors import ConfigError

__all__ = ["is_public", "place", "root_folder", "setting", "shown"]

_SCHEMES: Final = ("file", "hdfs", "pfs", "webhdfs")


def setting(variable: str, given: str | None, default: str | Path) -> str:
    """Return an argument, or else the value of its variable, or else the default.

    Raises:
        ConfigError: The value is empty, or has a NUL.
    """
    value = given if given is not None else os.environ.get(variable, str(default))
    if not value or "\0" in value:
        raise ConfigError(
            f"expected {variable} to name a place, got {shown(value)!r}; set or unset it"
        )
    return value


def is_public(value: str) -> bool:
    """Return whether a setting names a folder of the public area, where nothing is written."""
    return is_shared(value) and shared_place(value).area == "pfs://public"


def root_folder(setting: str, value: str) -> str:
    """Return a publication root as an absolute path of this machine.

    Args:
        setting: Name of the setting, for messages.
        value: A path, ``file:///…`` or ``pfs://…``.

    Raises:
        ConfigError: ``value`` is a place of another kind, or the area of ``pfs://…`` is not
            mounted on this machine.
        AccessDeniedError: A link leads out of the area.
    """
    if is_shared(value):
        return local_source(value).rstrip("/")
    scheme, separator, rest = value.partition("://")
    if not separator:
        return str(Path(value).absolute())
    if scheme != "file" or not rest.startswith("/"):
        raise ConfigError(
            f"expected {setting} to be a folder of a mounted file system, got {shown(value)!r};"
            " publication needs its atomic rename"
        )
    return rest


def place(variable: str, value: str) -> str:
    """Return a place of files: an absolute path, or a URI as it stands.

    Raises:
        ConfigError: The value is a URI of another scheme than ``file``, ``hdfs`` and ``webhdfs``.
    """
    scheme, separator, _ = value.partition("://")
    if not separator:
        return str(Path(value).absolute())
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"expected {variable} to be a path or a URI of {', '.join(_SCHEMES)},"
            f" got {shown(value)!r}"
        )
    return value


def shown(value: str) -> str:
    """Return a setting for messages, without the text before an @, which may be a password."""
    return re.sub(r"^([a-z0-9]+://)?.*@", r"\1…@", value)
