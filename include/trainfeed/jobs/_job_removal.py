"""The note that retention removed the files of a finished job; its job file and result stay.

With both, the job is still found by its content, so that no event trains it again. The note is
written before the first file goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trainfeed.records import RecordFile, Time

__all__ = ["JobRemoval"]

_NAME: Final = "removed.json"


@dataclass(frozen=True)
class JobRemoval:
    """The removal of the files of a job by retention.

    Attributes:
        at: Time of the removal, as ``2026-03-08T00:00:00Z``.
        why: The rule, as ``keep_days: 30``.
        job: Name of the job; None in a note of before.
    """

    at: Time
    why: str
    job: str | None = field(default=None, compare=False, repr=False)

    @property
    def told(self) -> str:
        """When and why, for a message."""
        return f"retention removed its files on {self.at} ({self.why})"

    @classmethod
    def read(cls, home: Path) -> JobRemoval | None:
        """Return the removal of the job with the folder ``home``, None if its files are there.

        Raises:
            FormatError: The note is damaged.
            StorageError: The publication root refused or failed.
        """
        return _FILE.read(home / _NAME, job=home.name)

    def write(self, home: Path) -> None:
        """Write the note, unless there is one."""
        _FILE.write_once(home / _NAME, replace(self, job=home.name))


_FILE: Final = RecordFile(
    JobRemoval,
    "the note of a removal of a job's files",
    "nothing was changed; remove the job's folder, and train again",
)
