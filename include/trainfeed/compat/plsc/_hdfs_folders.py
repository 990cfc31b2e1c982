"""The folders that ``Entry.set_hdfs_info`` names, as locations of ``trainfeed.storage``.

The password of ``fs_ugi`` is checked for presence and dropped: HDFS takes the name of the user, or
a Kerberos ticket, so no client has a use for it, and nothing that is not kept can be shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trainfeed.errors import ConfigError
from trainfeed.storage import Location

__all__ = ["HdfsFolders", "hdfs_folders"]

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,255}")


@dataclass(frozen=True)
class HdfsFolders:
    """Where a training gets its first model from, and where its models go.

    Attributes:
        user: Name of the account.
        save: URI of the folder that models are uploaded to after the training; None for no upload.
        checkpoint: URI of the folder that a model is downloaded from before the training; None for
            no download.
    """

    user: str
    save: str | None = None
    checkpoint: str | None = None

    @property
    def is_named_by_environment(self) -> bool:
        """Whether the client takes the user from the environment, not from the URI."""
        return (self.save or self.checkpoint or "").startswith("hdfs://")


def hdfs_folders(
    fs_name: object, fs_ugi: object, fs_dir_for_save: object, fs_checkpoint_dir: object
) -> HdfsFolders:
    """Return the folders that the arguments of ``set_hdfs_info`` name.

    Raises:
        ValueError: An argument is missing or wrong; no message has a part of ``fs_ugi``.
    """
    base, user = _base(fs_name), _user(fs_ugi)
    if fs_dir_for_save is None and fs_checkpoint_dir is None:
        raise ValueError(
            "expected fs_dir_for_save, fs_checkpoint_dir or both, got neither; without them nothing"
            " is uploaded or downloaded"
        )
    return HdfsFolders(
        user,
        _uri("fs_dir_for_save", base, user, fs_dir_for_save),
        _uri("fs_checkpoint_dir", base, user, fs_checkpoint_dir),
    )


def _base(fs_name: object) -> str:
    if not isinstance(fs_name, str) or not fs_name or "@" in fs_name:
        raise ValueError(
            "expected fs_name as hdfs://host:port, webhdfs://host:port, file:// or host:port,"
            " without a user"
        )
    return fs_name if _SCHEME.match(fs_name) else f"hdfs://{fs_name}"


def _user(fs_ugi: object) -> str:
    user, comma, password = fs_ugi.partition(",") if isinstance(fs_ugi, str) else ("", "", "")
    if not comma or not password or not _USER.fullmatch(user):
        raise ValueError(
            "expected fs_ugi as 'user,password' with a name of letters, digits and _ . -; its"
            " value is not shown"
        )
    return user


def _uri(name: str, base: str, user: str, value: object) -> str | None:
    """Return a folder as a URI; a relative path starts in the user's home, as in Hadoop."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or _SCHEME.match(value):
        raise ValueError(f"expected {name} as a path in fs_name, got {value!r:.200}")
    path = value if value.startswith("/") else f"/user/{user}/{value}"
    scheme, _, authority = base.partition("://")
    # WebHDFS gets the user with each request; the other client takes it from the environment.
    account = f"{user}@" if scheme == "webhdfs" else ""
    try:
        return Location.parse(f"{scheme}://{account}{authority.rstrip('/')}{path}").uri
    except ConfigError as error:
        raise ValueError(f"{name}: {error}") from None
