"""The marker of an interval that is skipped.

By its specification, a data set may skip an interval whose source never came. A reader could not
tell such an interval from one that is not built yet. The decision is therefore recorded beside the
interval's plans, in ``plans/<interval>/SKIPPED.json``: the reason, the time, and the end of the
wait. A version has precedence over the marker, and its publication removes the marker.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import parse_time
from trainfeed.paths import open_plain
from trainfeed.storage import posix

__all__ = ["Skip", "lift_skip", "read_skip", "write_skip"]

# Room for one message; a longer file is no marker.
_MAX_BYTES: Final = 64 << 10
_TIMES: Final = ("at", "until")


@dataclass(frozen=True)
class Skip:
    """The decision to skip an interval.

    Attributes:
        interval: Name of the interval.
        why: The reason: the missing source, and what was found.
        at: Time of the decision: ``2026-03-08T00:00:00Z``.
        until: End of the wait for the source, in the same form; None without a wait.
    """

    interval: str
    why: str
    at: str
    until: str | None


def write_skip(folder: DatasetFolder, skip: Skip) -> Skip:
    """Write the marker of an interval, or adopt an existing one.

    Returns:
        The decision that holds: that of the first run.

    Raises:
        FormatError: The existing marker is damaged.
        StorageError: The publication root refused or failed. This call wrote no marker.
    """
    path = folder.skip(skip.interval)
    # Readers run under other accounts.
    posix.make_public_dir(path.parent)
    posix.create_exclusive(path, canonical_json.dumps(asdict(skip)), is_public=True)
    return _read(path, skip.interval)


def read_skip(folder: DatasetFolder, interval: str) -> Skip | None:
    """Return the decision to skip an interval, or None.

    A published version has precedence: look for versions first.

    Args:
        folder: The data set.
        interval: Name of the interval.

    Raises:
        FormatError: The marker is damaged.
        StorageError: The publication root refused or failed.
    """
    try:
        return _read(folder.skip(interval), interval)
    except NotFoundError:
        return None


def lift_skip(folder: DatasetFolder, interval: str) -> bool:
    """Remove the marker of an interval; return whether there was one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    path = folder.skip(interval)
    with posix.map_errors(path), suppress(FileNotFoundError):
        path.unlink()
        posix.sync_dir(path.parent)
        return True
    return False


def _read(path: Path, interval: str) -> Skip:
    with open_plain(path, follow=False) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise _damaged(path, f"at most {_MAX_BYTES} bytes, got more")
    try:
        return _parse(canonical_json.loads(data), interval)
    except (FormatError, WindowError, TypeError, ValueError) as error:
        raise _damaged(path, f"why, at and until of interval {interval}: {error}") from error


def _parse(value: Any, interval: str) -> Skip:
    names = {field.name for field in fields(Skip)}
    # Keys that later versions of trainfeed add are ignored.
    known = {key: each for key, each in dict(value).items() if key in names}
    for name in _TIMES:
        if known.get(name) is not None:
            parse_time(known[name])
    skip = Skip(**known)
    texts = [skip.interval, skip.why, skip.at, *([] if skip.until is None else [skip.until])]
    if not all(isinstance(text, str) for text in texts) or skip.interval != interval:
        raise ValueError(f"got {value!r}")
    return skip


def _damaged(path: Path, expected: str) -> FormatError:
    return FormatError(
        f"expected the marker of a skipped interval, with {expected}; nothing was changed; remove"
        " the file and build the interval, which decides again",
        path=str(path),
    )
