"""Which files below a data set are decisions of people: those that follow its versions anywhere.

A root in a bucket keeps them in a log, and a mirror copies them; what else is below a data set
(plans, boundaries, receipts, jobs, leases) belongs to the place where versions are built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files import listed, read_plain
from trainfeed.versions.layout import DatasetFolder

# A tag of 100,000 versions has 10 MB.
MOST_BYTES: Final = 16 << 20
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,249}"
_NUMBERED: Final = r"(?:[0-9]{4,}|LAST)\.json"
_MARK: Final = r"g[0-9]{4,}\.(?:withdrawn|removed|restored-[0-9a-f]{16}-[0-9a-f]{16})"
_DECISION: Final = re.compile(
    r"SCHEDULE\.json"
    rf"|(?:tags|parameters)/{_NAME}/{_NUMBERED}"
    rf"|holes/{_NAME}\.json"
    rf"|history/[0-9]{{6}}/{_NAME}\.json"
    rf"|plans/{_NAME}/(?:SKIPPED\.json|{_NAME}\.waiver-[0-9]{{4}}\.json)"
    rf"|versions/{_NAME}/(?:{_MARK}|RETIRED\.json)"
)
# Folder of the data set → masks of the names in each folder that it has, or in itself.
_PLACES: Final = (
    ("", "SCHEDULE.json"),
    ("tags/*", "*.json"),
    ("parameters/*", "*.json"),
    ("holes", "*.json"),
    ("history/*", "*.json"),
    ("plans/*", "SKIPPED.json"),
    ("plans/*", "*.waiver-*.json"),
    ("versions/*", "g*.*"),
    ("versions/*", "RETIRED.json"),
)


def is_decision_file(path: str) -> bool:
    """Return whether a path below a data set is that of a decision."""
    return _DECISION.fullmatch(path) is not None


def decision_files(folder: DatasetFolder) -> Iterator[str]:
    """Yield the paths of all decisions about a data set, relative to its folder.

    Raises:
        StorageError: A folder cannot be listed.
    """
    for place, mask in _PLACES:
        above, _, each = place.partition("/")
        homes = listed(folder.path / above) if each else [folder.path / above]
        for home in homes:
            for path in listed(home, mask):
                relative = path.relative_to(folder.path).as_posix()
                if is_decision_file(relative) and path.is_file():
                    yield relative


def read_decision(folder: DatasetFolder, path: str) -> str | None:
    """Return the text of a decision; None if the file is not there.

    Raises:
        FormatError: The file is too large, or no text.
        StorageError: It cannot be read.
    """
    place = folder.path / path
    try:
        return read_plain(place, follow=False, max_bytes=MOST_BYTES).decode()
    except NotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise FormatError(
            "expected the text of a decision, got other bytes; nothing was changed; move the file"
            " away",
            path=str(place),
        ) from error


class Stamp(NamedTuple):
    """What changes with every writing of a file."""

    changed_ns: int
    size_bytes: int
    inode: int


def stamps(folder: DatasetFolder) -> dict[str, Stamp]:
    """Return the stamp of every decision; compared with later ones, they tell what was written.

    Raises:
        StorageError: A folder cannot be listed.
    """
    found = {}
    for path in decision_files(folder):
        try:
            status = Path(folder.path / path).lstat()
        except FileNotFoundError:
            continue
        found[path] = Stamp(status.st_ctime_ns, status.st_size, status.st_ino)
    return found


def changes_since(folder: DatasetFolder, before: Mapping[str, Stamp]) -> dict[str, str | None]:
    """Return path → text of the decisions that changed; None for those that are gone.

    Raises:
        FormatError: A file is no text.
        StorageError: A file or folder cannot be read.
    """
    after = stamps(folder)
    written = [path for path, stamp in after.items() if before.get(path) != stamp]
    return {
        path: read_decision(folder, path)
        for path in sorted({*written, *before.keys() - after.keys()})
    }
