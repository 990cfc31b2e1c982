"""Adds a user, or changes one as asked: folder, namespace, quota, key, keyring file.

Each step looks at what is there, so the same command goes on after a kill at any step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainfeed import faults
from trainfeed.errors import ConfigError
from trainfeed.pfs.users._folder_attributes import attribute
from trainfeed.pfs.users._home_folder import HomeWish, prepare_home, prepare_public
from trainfeed.pfs.users._keyring_file import require_keyring_place, write_keyring
from trainfeed.pfs.users._shared_storage import SharedStorage
from trainfeed.pfs.users._user_caps import expected_caps
from trainfeed.pfs.users._user_key import find_key, give_key, keyring_text
from trainfeed.pfs.users._user_name import require_user_name
from trainfeed.pfs.users._user_record import NAMESPACE
from trainfeed.pfs.users._user_sessions import EndedSessions

__all__ = ["AddedUser", "add_user"]


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
