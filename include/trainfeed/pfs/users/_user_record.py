"""What an administrator gave to a user, kept where no user's key reaches.

Ceph 16 lets every key that reads a folder remove the namespace of its new files; quotas go by keys
with more rights. Without a record nobody knows what is gone. It lies beside the homes, in a folder
to which no key of a user has a path.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.errors import NotFoundError, UnsuitableStoreError
from trainfeed.paths import os_errors
from trainfeed.pfs.users._folder_attributes import QUOTA_BYTES, QUOTA_FILES, attribute, number
from trainfeed.pfs.users._shared_layout import Layout
from trainfeed.records import RecordFile

__all__ = [
    "NAMESPACE",
    "RECORDS",
    "UserRecord",
    "lost_attributes",
    "lost_of",
    "record_path",
    "require_attributes",
]

logger = logging.getLogger(__name__)

NAMESPACE: Final = "ceph.dir.layout.pool_namespace"
_FOLDER: Final = ".users"
_MODE: Final = 0o600
# Losses that one message names.
_SHOWN: Final = 10


@dataclass(frozen=True)
class UserRecord:
    """The attributes of a home, as the last ``trainfeed pfs user add`` left them.

    Attributes:
        user: Name of the user.
        namespace: Namespace of the objects of new files.
        quota_bytes: Most bytes of files; 0 for no limit.
        quota_files: Most files and folders; 0 for no limit.
    """

    user: str
    namespace: str
    quota_bytes: int
    quota_files: int


RECORDS: Final = RecordFile(
    UserRecord,
    "the record of a user's quotas and namespace",
    "nothing was changed; remove the file, then give the quotas again: trainfeed pfs user add",
    mode=_MODE,
)


def record_path(homes: Path, user: str) -> Path:
    """Return the file of a user's record beside the homes."""
    return homes / _FOLDER / f"{user}.json"


def lost_of(homes: Path, user: str) -> Iterator[str]:
    """Return what a home has not any more, or has otherwise, in words.

    Raises:
        FormatError: The record is damaged.
        StorageError: The mount refused.
    """
    record = RECORDS.read(record_path(homes, user), user=user)
    folder = homes / user
    if record is None:
        yield (
            "no record of its quotas, so their loss would not be noticed; trainfeed pfs user add"
            " makes it"
        )
        return
    if (found := attribute(folder, NAMESPACE)) != record.namespace:
        yield _lost("namespace of new files", record.namespace, found or "none")
    for what, name, given in (
        ("quota of bytes", QUOTA_BYTES, record.quota_bytes),
        ("quota of files", QUOTA_FILES, record.quota_files),
    ):
        if (limit := number(folder, name)) != given:
            yield _lost(what, str(given or "none"), str(limit or "none"))


def lost_attributes(mount: Path, datacenter: str) -> list[str]:
    """Return what the homes and the public folder of a data centre have lost, in words.

    Needs the mount of an administrator, and not the cluster's program.

    Raises:
        ConfigError: The name of the data centre is wrong.
        NotFoundError: The data centre has no folder of homes.
        FormatError: A record is damaged.
        StorageError: The mount refused, or is none of a CephFS.
    """
    layout = Layout("", datacenter)
    homes = mount / layout.homes.removeprefix("/")
    public = mount / layout.public.removeprefix("/")
    if not homes.is_dir():
        raise NotFoundError(
            f"expected homes of the data centre {datacenter} at {homes}, found none; name the"
            " folder on which the root of the CephFS is mounted"
        )
    with os_errors(homes):
        users = sorted(each.name for each in homes.iterdir() if not each.name.startswith("."))
    lost = [f"{homes / user}: {each}" for user in users for each in lost_of(homes, user)]
    if (found := attribute(public, NAMESPACE)) != layout.public_namespace:
        lost.append(f"{public}: {_lost('namespace', layout.public_namespace, found or 'none')}")
    return lost


def require_attributes(mount: Path, datacenter: str) -> None:
    """Refuse homes that lost what an administrator gave them; the log has each loss.

    Raises:
        UnsuitableStoreError: Some attributes are gone; nothing was changed.
        ConfigError, NotFoundError, FormatError, StorageError: As of ``lost_attributes``.
    """
    lost = lost_attributes(mount, datacenter)
    for each in lost:
        logger.error("%s", each)
    if lost:
        raise UnsuitableStoreError(
            f"expected the attributes that an administrator gave to the homes of {datacenter}, got"
            f" {len(lost)} others: {'; '.join(lost[:_SHOWN])}"
            f"{'; …' if len(lost) > _SHOWN else ''}; nothing was changed; put them back with:"
            " trainfeed pfs user add NAME"
        )


def _lost(what: str, given: str, found: str) -> str:
    return f"{what}: expected {given}, got {found}; trainfeed pfs user add puts it back"
