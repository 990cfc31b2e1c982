"""Keys of users on a Ceph cluster: caps, sessions, keyring files; each change is read back."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trainfeed.core import faults
from trainfeed.errors import ConflictError, NotFoundError, StorageError
from trainfeed.files import UnfinishedFile, os_errors, read_plain, write_all
from trainfeed.serving.pfs.ceph import Layout, SharedStorage

# --- The caps of a user's key, and whether a key found on the cluster is that of a user


def expected_caps(layout: Layout, user: str, namespace: str) -> dict[str, str]:
    """Return daemon → caps of a user's key.

    Args:
        layout: Names of the file system and of the data centre.
        user: A checked name.
        namespace: Namespace of the objects of the user's home.
    """
    fs = layout.file_system
    pools = f"tag cephfs data={fs}"
    return {
        "mon": f"allow r fsname={fs}",
        "mds": (
            f"allow rw fsname={fs} path={layout.home(user)},"
            f" allow r fsname={fs} path={layout.public}"
        ),
        "osd": (
            f"allow rw namespace={namespace} {pools},"
            f" allow r namespace={layout.public_namespace} {pools}"
        ),
    }


def narrow_caps(layout: Layout, user: str) -> dict[str, str]:
    """Return caps by which a key reads names of its home and no byte, during a correction."""
    fs = layout.file_system
    return {
        "mon": f"allow r fsname={fs}",
        "mds": f"allow r fsname={fs} path={layout.home(user)}",
    }


def caps_arguments(caps: Mapping[str, str]) -> list[str]:
    """Return caps as arguments of ``ceph auth``."""
    return [word for daemon, allowed in caps.items() for word in (daemon, allowed)]


def describes_user(entity: Mapping[str, Any], layout: Layout, user: str) -> bool:
    """Whether a key was made for this user's home, perhaps with caps that were changed since."""
    words = entity.get("caps", {}).get("mds", "").replace(",", " ").split()
    return f"path={layout.home(user)}" in words


# --- Ends the sessions of a user's key: a revoked key alone does not stop a client that runs

# A block must outlast the tickets of a client; their keys are exchanged three times in that time.
_BLOCK_TICKETS: Final = 3


@dataclass(frozen=True)
class EndedSessions:
    """The clients that were cut off.

    Attributes:
        addresses: Addresses of clients that are blocked, each with the number of its process.
        blocked_s: Seconds for which they are blocked; 0 if there were none.
    """

    addresses: tuple[str, ...] = ()
    blocked_s: int = 0


def end_sessions(storage: SharedStorage, user: str) -> EndedSessions:
    """Cut off all clients that use a user's key now; clients that start later are not touched.

    Raises:
        StorageError: The cluster refused or did not answer, or a client is not blocked afterwards.
    """
    addresses = _addresses(storage, user)
    blocked_s = _BLOCK_TICKETS * _ticket_s(storage) if addresses else 0
    for address in addresses:
        storage.ceph.run("osd", "blocklist", "add", address, str(blocked_s))
    for rank in storage.ranks:
        storage.ceph.run("tell", storage.mds(rank), "session", "evict", f"auth_name={user}")
    if addresses:
        _require_blocked(storage, addresses)
    return EndedSessions(addresses, blocked_s)


def _addresses(storage: SharedStorage, user: str) -> tuple[str, ...]:
    """Return the addresses of all clients that a monitor has authenticated by the user's key."""
    monitors = storage.ceph.json("quorum_status")["quorum_names"]
    found = set()
    for monitor in monitors:
        for session in storage.ceph.json("tell", f"mon.{monitor}", "sessions"):
            if session["entity_name"] == f"client.{user}":
                entries = session["addrs"]["addrvec"]
                found |= {f"{each['addr']}/{each['nonce']}" for each in entries}
    return tuple(sorted(found))


def _ticket_s(storage: SharedStorage) -> int:
    return round(float(storage.ceph.run("config", "get", "mon", "auth_service_ticket_ttl")))


def _require_blocked(storage: SharedStorage, addresses: tuple[str, ...]) -> None:
    # `osd blocklist ls` of Ceph 16 is no JSON: a second, empty list follows the first.
    blocked = storage.ceph.json("osd", "dump")["blocklist"]
    if missing := set(addresses) - set(blocked):
        raise StorageError(
            f"expected the clients {', '.join(sorted(missing))} to be blocked, found them not in"
            " the list of the cluster; run the same command again"
        )


# --- Keys of users on the cluster: found, made, changed, revoked, and read back each time


def find_key(storage: SharedStorage, user: str) -> Mapping[str, Any] | None:
    """Return the cluster's entry of a user's key, with its caps and its secret; None without one.

    Raises:
        ConflictError: The name belongs to a key that was not made for this user's home.
        StorageError: The cluster refused or did not answer.
    """
    found = storage.ceph.json_or_none("auth", "get", f"client.{user}")
    if found is None:
        return None
    entity: Mapping[str, Any] = found[0]
    if not describes_user(entity, storage.layout, user):
        raise ConflictError(
            f"expected client.{user} to be free, or the key for {storage.layout.home(user)}, got"
            " a key of another use; nothing was changed; choose another name, or look at the key"
            f" with: ceph auth get client.{user}"
        )
    return entity


@dataclass(frozen=True)
class GivenKey:
    """A user's key after ``give_key``.

    Attributes:
        entity: The cluster's entry of the key, with its secret.
        changes: Changes that were made, in words; empty if the key was there with its caps.
        ended: Sessions that were ended because they had other caps.
    """

    entity: Mapping[str, Any] = field(repr=False)
    changes: tuple[str, ...] = ()
    ended: EndedSessions = field(default_factory=EndedSessions)


def give_key(
    storage: SharedStorage, user: str, caps: Mapping[str, str], found: Mapping[str, Any] | None
) -> GivenKey:
    """Give a user a key with exactly these caps, and read them back.

    Args:
        storage: The data centre.
        user: Name of the user.
        caps: Daemon → caps.
        found: The present key, as ``find_key`` returned it.

    Raises:
        StorageError: The cluster refused, or shows other caps afterwards.
    """
    if found is not None and found["caps"] == caps:
        return GivenKey(found)
    if found is None:
        storage.ceph.json("auth", "get-or-create", f"client.{user}", *caps_arguments(caps))
        return GivenKey(_read_back(storage, user, caps), ("key made",))
    daemons = sorted(d for d in {*found["caps"], *caps} if found["caps"].get(d) != caps.get(d))
    ended = _corrected(storage, user, caps)
    change = f"caps of {', '.join(daemons)} corrected"
    return GivenKey(_read_back(storage, user, caps), (change,), ended)


def revoke_key(storage: SharedStorage, user: str) -> None:
    """Remove a user's key, which ``find_key`` has found.

    Raises:
        StorageError: The cluster refused, or still has the key.
    """
    storage.ceph.run("auth", "rm", f"client.{user}")
    if find_key(storage, user) is not None:
        raise StorageError(f"client.{user} has a key again; run the same command again")


def keyring_text(entity: Mapping[str, Any]) -> str:
    """Return a key as the text of a keyring file."""
    return f"[{entity['entity']}]\n\tkey = {entity['key']}\n"


def _corrected(storage: SharedStorage, user: str, caps: Mapping[str, str]) -> EndedSessions:
    narrow = narrow_caps(storage.layout, user)
    storage.ceph.run("auth", "caps", f"client.{user}", *caps_arguments(narrow))
    faults.point("user.after_narrow_caps")
    ended = end_sessions(storage, user)
    storage.ceph.run("auth", "caps", f"client.{user}", *caps_arguments(caps))
    return ended


def _read_back(storage: SharedStorage, user: str, caps: Mapping[str, str]) -> Mapping[str, Any]:
    found = find_key(storage, user)
    if found is None or found["caps"] != caps:
        raise StorageError(
            f"expected other caps of client.{user} after they were set; another administrator may"
            " have changed them; run the same command again"
        )
    return found


# --- Keyring files: a user's key in a file that only its owner can read, absent or whole

_MODE: Final = 0o600
_MOST_BYTES: Final = 4096


def require_keyring_place(path: Path, text: str | None) -> None:
    """Refuse a file that has another content, before anything is changed on the cluster.

    Args:
        path: The file.
        text: The content that it may have; None if it must not be there.

    Raises:
        ConflictError: The file has another content.
        NotFoundError: Its folder is not there.
    """
    if not path.parent.is_dir():
        raise NotFoundError(
            f"expected a folder for the keyring at {path.parent}, found none; nothing was changed;"
            " make the folder, or name another file by --keyring"
        )
    if (path.exists() or path.is_symlink()) and not _has(path, text):
        raise ConflictError(
            f"expected no file at {path}, or one with the present key; got another content, perhaps"
            " a key that was revoked; the file was left as it is; remove it, or name another file"
            " by --keyring"
        )


def write_keyring(path: Path, text: str) -> list[str]:
    """Write a keyring file, unless the file has this content; return what was done, in words.

    Raises:
        ConflictError: The file has another content.
        StorageError: The file cannot be written.
    """
    require_keyring_place(path, text)
    if path.exists():
        return _closed(path)
    with UnfinishedFile(path, mode=_MODE) as new:
        write_all(new.file, text.encode())
        if not new.claim():
            raise ConflictError(f"{path} was made meanwhile; run the same command again")
    return [f"{path} written"]


def _closed(path: Path) -> list[str]:
    with os_errors(path):
        if stat.S_IMODE(path.stat().st_mode) & ~_MODE == 0:
            return []
        path.chmod(_MODE)
    return [f"{path} closed to other accounts"]


def _has(path: Path, text: str | None) -> bool:
    found = read_plain(path, follow=False, max_bytes=_MOST_BYTES)
    return text is not None and found == text.encode()
