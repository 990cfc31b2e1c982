"""Lists users with their use of space, and every difference from what ``add_user`` makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.paths import os_errors
from trainfeed.pfs.users._folder_attributes import QUOTA_BYTES, QUOTA_FILES, attribute, number
from trainfeed.pfs.users._remove_user import REMOVED
from trainfeed.pfs.users._shared_storage import SharedStorage
from trainfeed.pfs.users._user_caps import describes_user, expected_caps
from trainfeed.pfs.users._user_name import require_user_name
from trainfeed.pfs.users._user_record import NAMESPACE, lost_of

__all__ = ["UserState", "list_users", "public_problems"]

_CLIENT: Final = "client."


@dataclass(frozen=True)
class UserState:
    """A user as found on the cluster and on the mount.

    Attributes:
        user: The name.
        has_home: Whether the home is there.
        has_key: Whether the cluster has a key for the home.
        owner: ``uid:gid`` of the home; empty without a home.
        used_bytes: Bytes of all files below the home, as the metadata servers count them: late by
            some seconds.
        used_files: Files and folders below the home, counted in the same way.
        quota_bytes: Most bytes; 0 for no limit.
        quota_files: Most files and folders; 0 for no limit.
        problems: Differences from what ``add_user`` makes, in words; empty if there are none.
    """

    user: str
    has_home: bool
    has_key: bool
    owner: str = ""
    used_bytes: int = 0
    used_files: int = 0
    quota_bytes: int = 0
    quota_files: int = 0
    problems: tuple[str, ...] = ()


def list_users(storage: SharedStorage) -> list[UserState]:
    """Return all users of a data centre by name: those with a home, a key, or both.

    Raises:
        NotFoundError: The data centre has no folder of homes.
        StorageError: The cluster or the mount refused or did not answer.
    """
    homes = _homes(storage)
    keys = {
        name: entity
        for name, entity in _clients(storage)
        if _is_name(name) and (name in homes or describes_user(entity, storage.layout, name))
    }
    return [_state(storage, name, homes, keys) for name in sorted({*homes, *keys})]


def public_problems(storage: SharedStorage) -> tuple[str, ...]:
    """Return the differences of the public folder from what ``add_user`` makes, in words."""
    folder = storage.folder(storage.layout.public)
    with os_errors(folder):
        if not folder.is_dir():
            return ("the public folder is missing",)
    found = attribute(folder, NAMESPACE)
    if found == storage.layout.public_namespace:
        return ()
    return (
        f"the public folder has the namespace {found!r}: users cannot read files that are made now",
    )


def _homes(storage: SharedStorage) -> set[str]:
    folder = storage.folder(storage.layout.homes)
    if not folder.is_dir():
        raise NotFoundError(
            f"expected homes of the data centre {storage.layout.datacenter} at {folder}, found"
            " none; correct --mount or --datacenter; trainfeed pfs user add makes the folder"
        )
    with os_errors(folder):
        return {each.name for each in folder.iterdir() if not each.name.startswith(".")}


def _clients(storage: SharedStorage) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entity in storage.ceph.json("auth", "ls")["auth_dump"]:
        if entity["entity"].startswith(_CLIENT):
            yield entity["entity"].removeprefix(_CLIENT), entity


def _state(
    storage: SharedStorage, user: str, homes: set[str], keys: Mapping[str, Mapping[str, Any]]
) -> UserState:
    key = keys.get(user)
    if not _is_name(user):
        return UserState(user, has_home=True, has_key=False, problems=("no name of a user",))
    if user not in homes:
        return UserState(user, has_home=False, has_key=True, problems=("a key without a home",))
    folder = storage.folder(storage.layout.home(user))
    namespace = attribute(folder, NAMESPACE)
    with os_errors(folder):
        found = folder.lstat()
    return UserState(
        user=user,
        has_home=True,
        has_key=key is not None,
        owner=f"{found.st_uid}:{found.st_gid}",
        used_bytes=number(folder, "ceph.dir.rbytes"),
        used_files=max(number(folder, "ceph.dir.rentries") - 1, 0),  # without the home
        quota_bytes=number(folder, QUOTA_BYTES),
        quota_files=number(folder, QUOTA_FILES),
        problems=(
            *_home_problems(storage, user, namespace, folder),
            *_key_problems(storage, user, namespace, key),
        ),
    )


def _is_name(text: str) -> bool:
    try:
        require_user_name(text)
    except ConfigError:
        return False
    return True


def _home_problems(
    storage: SharedStorage, user: str, namespace: str, folder: Path
) -> Iterator[str]:
    if not storage.layout.is_namespace(user, namespace):
        yield f"the home has the namespace {namespace!r}, which is not one of its own"
    yield from lost_of(storage.folder(storage.layout.homes), user)
    removed = folder.with_name(f"{REMOVED}{user}")
    if removed.exists():
        yield f"{removed} is left of a removal"


def _key_problems(
    storage: SharedStorage, user: str, namespace: str, key: Mapping[str, Any] | None
) -> Iterator[str]:
    if key is None:
        yield "a home without a key"
        return
    expected, found = expected_caps(storage.layout, user, namespace), key["caps"]
    for daemon in sorted({*expected, *found}):
        if expected.get(daemon) != found.get(daemon):
            yield (
                f"caps of {daemon}: expected {expected.get(daemon, 'none')!r}, got"
                f" {found.get(daemon, 'none')!r}"
            )
