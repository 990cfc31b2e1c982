"""The record of the last attempt at an interval that did not publish it: the error, and since when.

The logs of schedulers say why a build failed, but are elsewhere, and are deleted. The error is
therefore also recorded in the data set's folder, in ``unpublished/<interval>.json``. A version that
was published later has precedence, and its publication removes the record. The text of an error may
quote a record, so only the account that builds, and its group, may read it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import parse_time
from trainfeed.paths import read_plain
from trainfeed.storage import posix

__all__ = ["Unpublished", "lift_unpublished", "read_unpublished", "write_unpublished"]

Outcome = Literal["failed", "retry", "waiting"]

# Room for one line of a message; a longer file is no record.
_MAX_BYTES: Final = 64 << 10
_MODE: Final = 0o640


@dataclass(frozen=True)
class Unpublished:
    """The end of an attempt that did not publish its interval.

    Attributes:
        interval: Name of the interval.
        since: Time of the first attempt that ended like this: ``2026-03-08T00:00:00Z``.
        work: The part of the build that ended: ``logs``, ``plan`` or a stage.
        plan: Id of the plan; None if the attempt ended before there was one.
        outcome: ``waiting`` for the source, ``retry`` if the cause may pass, or ``failed``.
        error: Class of the error.
        why: First line of its message.
    """

    interval: str
    since: str
    work: str
    plan: str | None
    outcome: Outcome
    error: str
    why: str

    @property
    def text(self) -> str:
        """Class and message in one line."""
        return f"{self.error}: {self.why}"


def write_unpublished(folder: DatasetFolder, ended: Unpublished) -> Unpublished:
    """Record the end of an attempt; an equal record stays, with its earlier time.

    Returns:
        The record that holds.

    Raises:
        StorageError: The publication root refused or failed. The record is the old one, or absent.
    """
    path = folder.unpublished(ended.interval)
    with suppress(FormatError, NotFoundError):
        known = _read(path, ended.interval)
        if replace(known, since=ended.since) == ended:
            return known
    posix.make_public_dir(path.parent)
    posix.replace_file(path, canonical_json.dumps(asdict(ended)), mode=_MODE)
    return ended


def read_unpublished(folder: DatasetFolder, interval: str) -> Unpublished | None:
    """Return the record of an interval, or None.

    Args:
        folder: The data set.
        interval: Name of the interval.

    Raises:
        AccessDeniedError: This account may not read the record.
        FormatError: The record is damaged.
        StorageError: The publication root refused or failed.
    """
    try:
        return _read(folder.unpublished(interval), interval)
    except NotFoundError:
        return None


def lift_unpublished(folder: DatasetFolder, interval: str) -> bool:
    """Remove the record of an interval; return whether there was one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    path = folder.unpublished(interval)
    with posix.map_errors(path), suppress(FileNotFoundError):
        path.unlink()
        return True
    return False


def _read(path: Path, interval: str) -> Unpublished:
    data = read_plain(path, follow=False, max_bytes=_MAX_BYTES)
    try:
        return _parse(canonical_json.loads(data), interval)
    except (FormatError, WindowError, TypeError, ValueError) as error:
        raise FormatError(
            f"expected the record of an attempt at interval {interval}: {error}; nothing was"
            " changed; remove the file, or build the interval, which removes it",
            path=str(path),
        ) from error


def _parse(value: Any, interval: str) -> Unpublished:
    names = {field.name for field in fields(Unpublished)}
    # Keys that later versions of trainfeed add are ignored.
    found = Unpublished(**{key: each for key, each in dict(value).items() if key in names})
    texts = [found.interval, found.since, found.work, found.outcome, found.error, found.why]
    texts += [] if found.plan is None else [found.plan]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("got a value that is no text")
    if found.interval != interval or found.outcome not in get_args(Outcome):
        raise ValueError(f"got interval {found.interval!r} and outcome {found.outcome!r}")
    parse_time(found.since)
    return found
