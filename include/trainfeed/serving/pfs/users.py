"""Users of shared storage on a CephFS: a home, a namespace of objects, a key and a quota each."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainfeed.core import faults
from trainfeed.errors import ConfigError, ConflictError, NotFoundError, UnsuitableStoreError
from trainfeed.files import os_errors, walk
from trainfeed.files.records import RecordFile
from trainfeed.serving.pfs.ceph import (
    QUOTA_BYTES,
    QUOTA_FILES,
    Layout,
    SharedStorage,
    attribute,
    number,
    set_attribute,
)
from trainfeed.serving.pfs.user_keys import (
    EndedSessions,
    describes_user,
    end_sessions,
    expected_caps,
    find_key,
    give_key,
    keyring_text,
    require_keyring_place,
    revoke_key,
    write_keyring,
)

# --- Names of users on a Ceph cluster, where a name is a folder, a key and a part of caps

# A letter first: Ceph names its own sessions client.<number>. No dot, which ends the name of a user
# in a namespace.
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
# Keys that Ceph, its gateways and the programs around it use, and words of the layout.
_RESERVED: Final = frozenset(
    {
        "admin",
        "ceph",
        "ceph-exporter",
        "cinder",
        "client",
        "crash",
        "fs",
        "glance",
        "home",
        "iscsi",
        "libvirt",
        "manila",
        "mds",
        "mgr",
        "mon",
        "nfs",
        "nobody",
        "nova",
        "osd",
        "public",
        "radosgw",
        "rbd",
        "rbd-mirror",
        "rgw",
        "root",
        "snap",
    }
)
_RESERVED_STARTS: Final = ("bootstrap-", "crash-", "nfs-", "rgw-")


def require_user_name(name: str) -> str:
    """Return ``name`` if a user may have it.

    Raises:
        ConfigError: The name has other characters, or is reserved.
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            "expected a user's name of at most 63 lower-case letters, digits and '-', a letter"
            f" first and no '-' last, got {name[:80]!a}; nothing was changed; choose such a"
            " name"
        )
    if name in _RESERVED or name.startswith(_RESERVED_STARTS):
        raise ConfigError(
            f"expected a user's name that Ceph does not use itself, got {name!r}; nothing was"
            " changed; choose another name"
        )
    return name


# --- What an administrator gave to a user, kept where no user's key reaches

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


# --- Folders of users and of the public: made with a namespace before their first file

_FILE_NAMESPACE: Final = "ceph.file.layout.pool_namespace"
_HOME_MODE: Final = 0o700
_SHARED_MODE: Final = 0o755


@dataclass(frozen=True)
class HomeWish:
    """Properties that an administrator asks for; None leaves a property as it is.

    Attributes:
        quota_bytes: Most bytes of files; 0 for no limit.
        quota_files: Most files and folders; 0 for no limit.
        uid: Number of the owning account.
        gid: Number of the owning group.
    """

    quota_bytes: int | None = None
    quota_files: int | None = None
    uid: int | None = None
    gid: int | None = None


def prepare_public(storage: SharedStorage) -> tuple[str, ...]:
    """Make the folders above homes and the public folder; return the changes, in words.

    Raises:
        ConflictError: The public folder has files that are not in the public namespace.
        StorageError: The mount refused.
    """
    layout, made = storage.layout, []
    for path in (str(Path(layout.public).parents[1]), str(Path(layout.public).parent)):
        made += _made(storage.folder(path), path, _SHARED_MODE)
    made += _made(storage.folder(layout.homes), layout.homes, _SHARED_MODE)
    storage.require_path(layout.homes)
    made += _made(storage.folder(layout.public), layout.public, _SHARED_MODE)
    own = layout.public_namespace
    made += _named(storage, layout.public, own, lambda namespace: namespace == own)
    return tuple(made)


def prepare_home(storage: SharedStorage, user: str, wish: HomeWish) -> tuple[str, ...]:
    """Make a user's home with a namespace of its own, owner and quotas; return the changes.

    Quotas and a namespace that the user removed are put back, as the record of the user has them.

    Raises:
        ConflictError: The home has files without a namespace of this user.
        FormatError: The record of the user is damaged.
        StorageError: The mount refused.
    """
    path = storage.layout.home(user)
    folder = storage.folder(path)
    record_file = record_path(storage.folder(storage.layout.homes), user)
    if not os.path.lexists(folder):
        # A record that is left is that of another home, whose namespace a new one must not get.
        RECORDS.lift(record_file)
    changes = _made(folder, path, _HOME_MODE)
    faults.point("user.after_folder")
    before = RECORDS.read(record_file, user=user)
    new, is_own = storage.layout.new_namespace(user), partial(storage.layout.is_namespace, user)
    new = before.namespace if before is not None else new
    changes += _named(storage, path, new, is_own)
    faults.point("user.after_namespace")
    changes += _owned(folder, wish)
    limits = dict[str, int]()
    for name, asked, given in (
        (QUOTA_BYTES, wish.quota_bytes, before.quota_bytes if before else None),
        (QUOTA_FILES, wish.quota_files, before.quota_files if before else None),
    ):
        present = number(folder, name)
        limit = limits[name] = next(each for each in (asked, given, present) if each is not None)
        if present != limit:
            set_attribute(folder, name, str(limit))
            changes.append(f"{name} {limit or 'without a limit'}")
    faults.point("user.after_quota")
    namespace = attribute(folder, NAMESPACE)
    record = UserRecord(user, namespace, limits[QUOTA_BYTES], limits[QUOTA_FILES])
    RECORDS.replace(record_file, record)
    record_file.parent.chmod(_HOME_MODE)  # regardless of the umask
    return tuple(changes)


def _made(folder: Path, path: str, mode: int) -> list[str]:
    with os_errors(folder):
        try:
            found = folder.lstat()
        except FileNotFoundError:
            folder.mkdir(mode)
            folder.chmod(mode)  # regardless of the umask
            return [f"{path} made"]
    if not stat.S_ISDIR(found.st_mode):
        raise ConflictError(
            f"expected a folder at {folder}, got another kind of file; no key was made or changed;"
            " move it away, then run the same command again"
        )
    return []


def _named(storage: SharedStorage, path: str, new: str, is_own: Callable[[str], bool]) -> list[str]:
    """Give a folder a namespace of its own, that of its files or else ``new``."""
    folder = storage.folder(path)
    present = attribute(folder, NAMESPACE)
    if is_own(present):
        return []
    found = _namespaces_below(folder)
    foreign = {namespace: file for namespace, file in found.items() if not is_own(namespace)}
    if foreign or len(found) > 1:
        namespace, file = next(iter((foreign or found).items()))
        raise ConflictError(
            f"expected all files below {folder} in one namespace of its own, got {file} in"
            f" {namespace or 'no namespace'}, whose objects other keys may read; no key was made or"
            " changed; rename the folder, run the same command again, copy the files into the new"
            " folder with cp -a, and remove the renamed one"
        )
    namespace = next(iter(found), new)
    set_attribute(folder, NAMESPACE, namespace)
    return [f"{path} has the namespace {namespace}{' again' if found else ''}"]


def _namespaces_below(folder: Path) -> dict[str, Path]:
    """Return the namespaces of all files below a folder, each with one file."""
    found: dict[str, Path] = {}
    for path in walk(folder):
        with os_errors(path):
            is_file = stat.S_ISREG(path.lstat().st_mode)
        if is_file:
            found.setdefault(attribute(path, _FILE_NAMESPACE), path)
    return found


def _owned(folder: Path, wish: HomeWish) -> list[str]:
    with os_errors(folder):
        found = folder.lstat()
        uid = found.st_uid if wish.uid is None else wish.uid
        gid = found.st_gid if wish.gid is None else wish.gid
        if (uid, gid) == (found.st_uid, found.st_gid):
            return []
        os.chown(folder, uid, gid, follow_symlinks=False)
    return [f"owner {uid}:{gid}"]


# --- Adds a user, or changes one as asked: folder, namespace, quota, key, keyring file


@dataclass(frozen=True)
class AddedUser:
    """A user as ``add_user`` leaves it.

    Attributes:
        user: The name.
        home: Path of the home inside the file system.
        namespace: Namespace of the objects of the home.
        changes: Changes that were made, in words; empty if all was as asked.
        keyring: File with the key; None if none was asked for.
        ended: Sessions that were ended because they had other caps.
        key: The key as the text of a keyring file: a secret.
    """

    user: str
    home: str
    namespace: str
    changes: tuple[str, ...]
    keyring: Path | None
    ended: EndedSessions
    key: str = field(repr=False)


def add_user(
    storage: SharedStorage, user: str, wish: HomeWish, keyring: Path | None = None
) -> AddedUser:
    """Give a user a home that only this user reaches, and a key for it and for public files.

    Args:
        storage: The data centre.
        user: Name of the user.
        wish: Owner and quotas.
        keyring: File for the key, made with mode 600; required for a new key. A file that has this
            key already is left as it is.

    Raises:
        ConfigError: The name is not allowed, or a new key would have no file.
        ConflictError: The name belongs to another key, the home has files without its own
            namespace, or the keyring file has another content.
        StorageError: The cluster or the mount refused or did not answer; the same call goes on.
    """
    require_user_name(user)
    found = find_key(storage, user)
    if found is None and keyring is None:
        raise ConfigError(
            f"expected a file for the new key of {user}, got none; nothing was changed; name one by"
            " --keyring"
        )
    if keyring is not None:
        require_keyring_place(keyring, keyring_text(found) if found else None)
    changes = [*prepare_public(storage), *prepare_home(storage, user, wish)]
    home = storage.layout.home(user)
    namespace = attribute(storage.folder(home), NAMESPACE)
    caps = expected_caps(storage.layout, user, namespace)
    given = give_key(storage, user, caps, found)
    faults.point("user.after_key")
    text = keyring_text(given.entity)
    written = [] if keyring is None else write_keyring(keyring, text)
    changes += [*given.changes, *written]
    return AddedUser(user, home, namespace, tuple(changes), keyring, given.ended, text)


# --- Removes a user: first the key, then the sessions that began with it, at last the home

# No user's name begins with a dot.
REMOVED: Final = ".removed-"


@dataclass(frozen=True)
class RemovedUser:
    """The outcome of ``remove_user``.

    Attributes:
        user: The name.
        had_key: Whether a key was revoked; False if an earlier call did that.
        ended: Clients that were cut off.
        kept_home: Folder of the home, which is kept; None without a home.
        removed_home: Whether a home was removed.
    """

    user: str
    had_key: bool
    ended: EndedSessions
    kept_home: Path | None
    removed_home: bool


def remove_user(storage: SharedStorage, user: str, *, remove_home: bool = False) -> RemovedUser:
    """Revoke a user's key, cut off its clients, and keep or remove the home.

    Args:
        storage: The data centre.
        user: Name of the user.
        remove_home: Whether the home and all of its files are removed.

    Raises:
        NotFoundError: The user has neither a key nor a home.
        ConflictError: The name belongs to a key of another use, which is kept; or the home has
            snapshots.
        StorageError: The cluster or the mount refused or did not answer; the same call goes on.
    """
    require_user_name(user)
    home = storage.folder(storage.layout.home(user))
    renamed = home.with_name(f"{REMOVED}{user}")
    had_key = find_key(storage, user) is not None
    if not (had_key or _is_there(home) or _is_there(renamed)):
        raise NotFoundError(
            f"expected a user {user} in the data centre {storage.layout.datacenter}, found neither"
            f" a key nor {home}; nothing was changed; trainfeed pfs user ls lists the users"
        )
    if had_key:
        revoke_key(storage, user)
    faults.point("user.after_revoke")
    ended = end_sessions(storage, user)
    faults.point("user.after_sessions")
    removed = remove_home and _removed(home, renamed)
    if remove_home:
        RECORDS.lift(record_path(home.parent, user))
    return RemovedUser(user, had_key, ended, home if _is_there(home) else None, removed)


def _removed(home: Path, renamed: Path) -> bool:
    """Rename a home, so that no key has a path to it, then remove it; whether it was there."""
    was_there = _removed_tree(renamed)
    if _is_there(home):
        with os_errors(home):
            home.rename(renamed)
        faults.point("user.after_rename")
        was_there = _removed_tree(renamed)
    return was_there


def _removed_tree(folder: Path) -> bool:
    if not _is_there(folder):
        return False
    try:
        shutil.rmtree(folder)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise ConflictError(
                f"{folder} has snapshots, so it cannot be removed; all of its files are gone from"
                " the present state; remove the snapshots (rmdir FOLDER/.snap/NAME), then run the"
                " same command again"
            ) from error
        with os_errors(folder):
            raise
    return True


def _is_there(folder: Path) -> bool:
    with os_errors(folder):
        try:
            folder.lstat()
        except FileNotFoundError:
            return False
    return True


# --- Lists users with their use of space, and every difference from what ``add_user`` makes

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
