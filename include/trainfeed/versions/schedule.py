"""The recorded schedule of a data set, from which readers know the intervals that should exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trainfeed.core.intervals import Schedule, format_time, parse_time
from trainfeed.files.records import ONCE_UNSEALED, RecordFile
from trainfeed.versions.layout import DatasetFolder

_FORMAT: Final = 1


@dataclass(frozen=True)
class _Recorded:
    """The content of the file; ``dataset`` is None in a file that is not sealed."""

    schedule: Schedule
    dataset: str | None


def _to_json(recorded: _Recorded) -> dict[str, Any]:
    schedule = recorded.schedule
    return {
        "format": _FORMAT,
        "dataset": recorded.dataset,
        "cron": schedule.cron,
        "first": format_time(schedule.first),
        "last": None if schedule.last is None else format_time(schedule.last),
    }


def _from_json(value: Any) -> _Recorded:
    if value["format"] != _FORMAT or not isinstance(value["cron"], str):
        raise ValueError(f"expected format {_FORMAT}, got {value!r}")
    last = value["last"]
    schedule = Schedule(
        value["cron"], parse_time(value["first"]), None if last is None else parse_time(last)
    )
    return _Recorded(schedule, value.get("dataset"))


_FILE: Final = RecordFile(
    _Recorded,
    "the schedule of a data set",
    "nothing was changed; the next build of the data set writes the file again",
    place=ONCE_UNSEALED["schedule"],
    to_json=_to_json,
    from_json=_from_json,
)


def record_schedule(folder: DatasetFolder, schedule: Schedule) -> None:
    """Write the present schedule of a data set, unless the file already has it.

    Raises:
        StorageError: The publication root refused or failed. The file is the old one, or absent.
    """
    _FILE.replace(folder.schedule, _Recorded(schedule, folder.name))


def read_schedule(folder: DatasetFolder) -> Schedule | None:
    """Return the schedule that the last build of a data set recorded, or None.

    Raises:
        FormatError: The file is damaged, or a newer version wrote it.
        StorageError: The publication root refused or failed.
    """
    found = _FILE.read(folder.schedule, dataset=folder.name)
    return None if found is None else found.schedule
