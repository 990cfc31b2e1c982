"""The recorded schedule of a data set, from which readers know the intervals that should exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trainfeed.core.intervals import Schedule, format_time, parse_time
from trainfeed.files.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.versions.layout import DatasetFolder


@dataclass(frozen=True)
class _Recorded:
    """The content of the file; ``dataset`` is None in a file that is not sealed."""

    cron: str
    first: Time
    last: Time | None
    dataset: str | None = None

    @property
    def schedule(self) -> Schedule:
        last = None if self.last is None else parse_time(self.last)
        return Schedule(self.cron, parse_time(self.first), last)


_FILE: Final = RecordFile(
    _Recorded,
    "the schedule of a data set",
    "nothing was changed; the next build of the data set writes the file again",
    place=ONCE_UNSEALED["schedule"],
    format=1,
    check=lambda recorded: recorded.schedule,
)


def record_schedule(folder: DatasetFolder, schedule: Schedule) -> None:
    """Write the present schedule of a data set, unless the file already has it.

    Raises:
        StorageError: The publication root refused or failed. The file is the old one, or absent.
    """
    first, last = format_time(schedule.first), schedule.last
    text = None if last is None else format_time(last)
    _FILE.replace(folder.schedule, _Recorded(schedule.cron, first, text, folder.name))


def read_schedule(folder: DatasetFolder) -> Schedule | None:
    """Return the schedule that the last build of a data set recorded, or None.

    Raises:
        FormatError: The file is damaged, or a newer version wrote it.
        StorageError: The publication root refused or failed.
    """
    found = _FILE.read(folder.schedule, dataset=folder.name)
    return None if found is None else found.schedule
