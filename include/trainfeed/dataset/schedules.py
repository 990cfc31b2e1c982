"""The recorded schedule of a data set, from which readers know the intervals that should exist.

A reader has the publication root, but no specification. If a folder is not there, the interval may
be missing, or the schedule may have no such interval. Therefore every build, also one that finds
its interval published, records the schedule in ``<data set>/SCHEDULE.json``: cron, first and last
tick. A data set that older versions of trainfeed built has no record until its next build.
"""

from __future__ import annotations

from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.intervals import Schedule, format_time, parse_time
from trainfeed.paths import open_plain
from trainfeed.storage import posix

__all__ = ["read_schedule", "record_schedule"]

_FORMAT: Final = 1
# Room for a cron expression and two times; a longer file is not a schedule.
_MAX_BYTES: Final = 64 << 10


def record_schedule(folder: DatasetFolder, schedule: Schedule) -> None:
    """Write the present schedule of a data set, unless the file already has it.

    Raises:
        StorageError: The publication root refused or failed. The file is the old one, or absent.
    """
    data = canonical_json.dumps(
        {
            "format": _FORMAT,
            "cron": schedule.cron,
            "first": format_time(schedule.first),
            "last": None if schedule.last is None else format_time(schedule.last),
        }
    )
    try:
        is_written = _read(folder) == data
    except (FormatError, NotFoundError):
        is_written = False
    if not is_written:
        posix.make_public_dir(folder.path)
        posix.replace_file(folder.schedule, data, is_public=True)


def read_schedule(folder: DatasetFolder) -> Schedule | None:
    """Return the schedule that the last build of a data set recorded, or None.

    Raises:
        FormatError: The file is damaged, or a newer version wrote it.
        StorageError: The publication root refused or failed.
    """
    try:
        return _parse(canonical_json.loads(_read(folder)))
    except NotFoundError:
        return None
    except (ConfigError, FormatError, TypeError, ValueError, KeyError) as error:
        raise FormatError(
            f"expected the schedule of data set {folder.name!r} of format {_FORMAT}: {error};"
            " nothing was changed; the next build of the data set writes the file again",
            path=str(folder.schedule),
        ) from error


def _read(folder: DatasetFolder) -> bytes:
    with open_plain(folder.schedule, follow=False) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise FormatError(f"expected at most {_MAX_BYTES} bytes", path=str(folder.schedule))
    return data


def _parse(value: Any) -> Schedule:
    if value["format"] != _FORMAT or not isinstance(value["cron"], str):
        raise ValueError(f"got {value!r}")
    last = value["last"]
    return Schedule(
        value["cron"], parse_time(value["first"]), None if last is None else parse_time(last)
    )
