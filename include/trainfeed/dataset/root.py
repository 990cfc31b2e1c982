"""Publication roots: a folder is a root only if it has a marker file, which is made on purpose.

A misspelt setting and a file system that is not mounted look alike: an empty folder, or none. A
build that made the missing folder would publish to the local disk, and find no interval built.
Only ``init_root`` makes a root; a person calls it, or a program that has just made the place
itself. All other code refuses a folder without a marker, and names the command.

``<root>/TRAINFEED.json`` is canonical JSON: ``format`` (1), ``id`` (a UUID), ``made_at`` (ISO 8601,
UTC) and ``made_by`` (an account). Readers of versions need no marker: a root with data sets that
was made before there were markers, or is mounted read-only, can be read as it is.
"""

from __future__ import annotations

import shlex
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.accounts import account_name
from trainfeed.config import Environment, environment_from_environ
from trainfeed.datacenters import local_source, local_target
from trainfeed.dataset.layout import MODELS, is_name
from trainfeed.errors import FormatError, NotFoundError, RootError
from trainfeed.paths import FilePath, open_plain
from trainfeed.storage import posix

__all__ = [
    "ROOT_MARKER",
    "RootMark",
    "data_sets_of",
    "init_root",
    "published_root",
    "require_readable_root",
    "require_root",
    "require_writable_root",
]

ROOT_MARKER: Final = "TRAINFEED.json"

_FORMAT: Final = 1
_MAX_BYTES: Final = 64 << 10
_MODE: Final = 0o644


@dataclass(frozen=True)
class RootMark:
    """The content of the marker file of a publication root.

    Attributes:
        id: A UUID, which stays the same wherever the root is mounted.
        made_at: When ``init_root`` made the root, ISO 8601 in UTC.
        made_by: Name of the account that made it, or its number.
    """

    id: str
    made_at: str
    made_by: str


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
        return known, False
    posix.probe(root)
    mark = RootMark(
        str(uuid.uuid4()), datetime.now(UTC).isoformat(timespec="seconds"), account_name()
    )
    path = root / ROOT_MARKER
    # Of two calls at once, one writes the marker, and both return its content.
    is_new = posix.create_exclusive(path, canonical_json.dumps({"format": _FORMAT, **asdict(mark)}))
    if is_new:
        with posix.map_errors(path):
            path.chmod(_MODE)
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
    return mark


def require_writable_root(env: Environment) -> RootMark:
    """Refuse the root of an environment in which nothing may be written; see ``require_root``.

    Raises:
        AccessDeniedError: The root was named as ``pfs://public/…``.
        RootError, FormatError, StorageError: As of ``require_root``.
    """
    env.refuse_public_root()
    return require_root(env.root, env.root_setting)


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
    path = root / ROOT_MARKER
    try:
        with open_plain(path, follow=False) as file:
            found = canonical_json.loads(file.read(_MAX_BYTES), path=str(path))
    except NotFoundError:
        return None
    return _parse(found, path)


def _parse(found: object, path: Path) -> RootMark:
    fields = ("id", "made_at", "made_by")
    if isinstance(found, dict) and found.get("format") == _FORMAT:
        values: list[Any] = [found.get(name) for name in fields]
        if all(isinstance(value, str) and value for value in values):
            return RootMark(*values)
    raise FormatError(
        f"expected format {_FORMAT} with {', '.join(fields)}; nothing was changed; the file was"
        " damaged, or is of a newer trainfeed: use that one, or bring the file back",
        path=str(path),
    )


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
