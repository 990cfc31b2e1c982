"""Keys of users on the cluster: found, made, changed, revoked, and read back each time.

A session keeps the caps that its key had at its start. A correction therefore ends the sessions of
the key, between narrow caps and the right ones: after a kill at any step the caps still differ, and
the next call does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainfeed import faults
from trainfeed.errors import ConflictError, StorageError
from trainfeed.pfs.users._shared_storage import SharedStorage
from trainfeed.pfs.users._user_caps import caps_arguments, describes_user, narrow_caps
from trainfeed.pfs.users._user_sessions import EndedSessions, end_sessions

__all__ = ["GivenKey", "find_key", "give_key", "keyring_text", "revoke_key"]


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
