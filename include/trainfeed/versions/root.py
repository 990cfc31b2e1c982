"""Publication roots: a folder is a root only if it has a marker file, which is made on purpose.

A misspelt setting and a file system that is not mounted look alike: an empty folder, or none. A
build that made the missing folder would publish to the local disk, and find no interval built.
Only ``init_root`` makes a root; a person calls it, or a program that has just made the place
itself. All other code refuses a folder without a marker, and names the command.

``<root>/TRAINFEED.json`` is a ``trainfeed.files.records.RootMark``. Readers of versions need no
marker: a root with data sets that was made before there were markers, or is mounted read-only, can
be read as it is. The first write to a root whose mark is not sealed seals it; from then on, only
the unsealed files that the mark lists count.
"""

from __future__ import annotations

import logging
import shlex
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.core.accounts import account_name
from trainfeed.core.config import Environment, environment_from_environ
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import AccessDeniedError, RootError
from trainfeed.files import FilePath
from trainfeed.files.records import ROOT_MARK_FILE, ROOT_MARKS, RootMark, unsealed_files
from trainfeed.files.stores import Location, posix
from trainfeed.versions.bucket_root import refuse_private
from trainfeed.versions.layout import MODELS, is_name

logger = logging.getLogger(__name__)

ROOT_MARKER: Final = ROOT_MARK_FILE


def init_root(root: FilePath) -> tuple[RootMark, bool]:
    """Make a publication root, or mark an existing folder as one; its files stay unchanged.

    Args:
        root: The folder; it and missing folders above it are made.

    Returns:
        The content of the marker, and whether this call wrote it: an existing marker stays.

    Raises:
        RootError: The folder lies in another publication root.
        UnsuitableStoreError: The file system cannot publish atomically. No marker was written.
        StorageError: The folder cannot be made or written.
        FormatError: The existing marker is damaged, or of a newer format.
    """
    root = Path(local_target(root)).absolute()
    _refuse_nested(root)
    posix.make_public_dir(root)
    if (known := _read(root)) is not None:
        return _sealed(root, known), False
    posix.probe(root)
    mark = RootMark(
        id=str(uuid.uuid4()),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        made_by=account_name(),
        unsealed=unsealed_files(root),
    )
    # Of two calls at once, one writes the marker, and both return its content.
    is_new = ROOT_MARKS.write_once(root / ROOT_MARKER, mark)
    return _read(root) or mark, is_new


def require_root(root: FilePath, setting: str) -> RootMark:
    """Refuse a folder that was not made a publication root, before anything is written to it.

    Args:
        root: The folder.
        setting: Name of the setting with the folder, for the message.

    Raises:
        RootError: The folder is not there, or has no marker; the message has the command.
        FormatError: The marker is damaged, or of a newer format.
        StorageError: The file system refused or failed.
    """
    root = Path(local_target(root))
    mark = _read(root)
    if mark is None:
        raise _not_a_root(root, setting)
    return _sealed(root, mark)


def require_writable_root(env: Environment, *, decides: bool = False) -> RootMark:
    """Refuse the root of an environment in which nothing may be written; see ``require_root``.

    The folder of a root in a bucket is brought up to date.

    Args:
        env: Folders and connections.
        decides: Whether nothing but decisions about data is written, for which a private copy of a
            root in a bucket is enough.

    Raises:
        AccessDeniedError: The root was named as ``pfs://public/…``.
        ConfigError: The root is in a bucket, and its folder is a private copy.
        RootError, FormatError, StorageError: As of ``require_root``.
    """
    env.refuse_public_root()
    return require_root_of(env, decides=decides)


def require_root_of(env: Environment, *, decides: bool = False) -> RootMark:
    """Refuse the root of an environment as ``require_writable_root`` does, but for a public one.

    Raises:
        ConfigError, RootError, FormatError, StorageError: As of ``require_writable_root``.
    """
    follow_environment(env)
    if not decides:
        refuse_private(Path(env.root), env.root_setting)
    return require_root(env.root, env.root_setting)


def follow_environment(env: Environment) -> None:
    """Bring the folder of a root in a bucket up to date; do nothing for any other root.

    A private copy is made where it is missing.

    Raises:
        RootError: The root in the bucket, or its folder, was not made one.
        StorageError: The store, or the file system, refused or failed.
    """
    if env.bucket is None:
        return
    # Commands that look at folders do not wait for what reads manifests.
    from trainfeed.versions.state_folder import follow_root, make_state, require_state

    bucket, root = Location.parse(env.bucket), Path(env.root)
    if env.is_root_private:
        make_state(root, bucket, is_private=True)
    else:
        require_state(root, bucket)
    follow_root(root)


def require_readable_root(root: FilePath, setting: str) -> None:
    """Refuse a folder that cannot have any versions; see ``require_root``.

    A folder without a marker passes if it has a data set.

    Raises:
        RootError: The folder is not there, or has neither a data set nor a marker.
        StorageError: The file system refused or failed.
    """
    root = Path(local_source(root))
    with posix.map_errors(root):
        if (root / ROOT_MARKER).exists():
            return
    if not data_sets_of(root):
        raise _not_a_root(root, setting)


def published_root(root: FilePath | None) -> Path:
    """Return the publication root for a reader: ``root``, or ``TRAINFEED_ROOT``; checked.

    Raises:
        ConfigError: The value of ``TRAINFEED_ROOT`` is not valid.
        RootError: See ``require_readable_root``.
    """
    if root is None:
        env = environment_from_environ()
        follow_environment(env)
        place, setting = Path(env.root), env.root_setting
    else:
        place, setting = Path(local_source(root)), "the argument 'root'"
    require_readable_root(place, setting)
    return place


def data_sets_of(root: FilePath) -> list[str]:
    """Return the names of the data sets with a folder of versions in ``root``, sorted.

    A folder that this account may not look into counts as a data set. The list is empty if there
    is no folder ``root``.

    Raises:
        StorageError: The file system refused or failed.
    """
    root = Path(local_source(root))
    with posix.map_errors(root):
        if not root.is_dir():
            return []
        names = (path.name for path in root.iterdir() if is_name(path.name))
        return sorted(name for name in names if _has_versions(root / name))


def _has_versions(path: Path) -> bool:
    try:
        return (path / "versions").exists()
    except PermissionError:
        return path.name != MODELS


def _read(root: Path) -> RootMark | None:
    return ROOT_MARKS.read(root / ROOT_MARKER)


def _sealed(root: Path, mark: RootMark) -> RootMark:
    """Return the mark with the list of unsealed files; a mark without one gets it in the file.

    An account that may not read all of them, or not write the mark, leaves the mark as it is.
    """
    if mark.unsealed is not None:
        return mark
    try:
        sealed = replace(mark, unsealed=unsealed_files(root))
        ROOT_MARKS.replace(root / ROOT_MARKER, sealed)
    except AccessDeniedError as error:
        logger.warning(
            "%s is not sealed, so files without a seal are still read there: %s; let an account"
            " that may write the root run: trainfeed init %s",
            root / ROOT_MARKER,
            error,
            shlex.quote(str(root)),
        )
        return mark
    logger.info("sealed %s, with %d unsealed files", root / ROOT_MARKER, len(sealed.unsealed or ()))
    return sealed


def _refuse_nested(root: Path) -> None:
    for parent in root.parents:
        with posix.map_errors(parent):
            is_root = (parent / ROOT_MARKER).exists()
        if is_root:
            raise RootError(
                f"expected a folder outside of any publication root, got {root}, which lies in the"
                f" root {parent}; nothing was made; name {parent}, or a folder beside it"
            )


def _not_a_root(root: Path, setting: str) -> RootError:
    command = f"trainfeed init {shlex.quote(str(root))}"
    expected = f"expected {setting} to name a publication root, got {root}"
    with posix.map_errors(root):
        is_folder, is_there = root.is_dir(), root.exists()
    if not is_folder:
        found = "it is no folder" if is_there else "there is no such folder"
        remedy = f"if it is to be a new root: {command}"
    elif names := data_sets_of(root):
        sets = f"{len(names)} data set{'s' * (len(names) > 1)}"
        found = f"it holds {sets} but no {ROOT_MARKER}, so it was not made a root on purpose"
        remedy = f"take it as it is: {command}"
    else:
        found = f"the folder has no {ROOT_MARKER} and holds no data set"
        remedy = f"if it is to be a new root: {command}"
    return RootError(
        f"{expected}: {found}; nothing was made or changed there; correct {setting}, or mount the"
        f" file system; {remedy}"
    )
