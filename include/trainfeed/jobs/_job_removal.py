"""The note that retention removed the files of a finished job; its job file and result stay.

With both, the job is still found by its content, so that no event trains it again. The note is
written before the first file goes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from trainfeed.dataset.sealed_json import read_sealed, sealed, text_of
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.storage import posix

__all__ = ["JobRemoval"]

_FILE: Final = "removed.json"
_WHAT: Final = "the note of a removal of a job's files"
_REMEDY: Final = "nothing was changed; remove the job's folder, and train again"


@dataclass(frozen=True)
class JobRemoval:
    """The removal of the files of a job by retention.

    Attributes:
        at: Time of the removal, as ``2026-03-08T00:00:00Z``.
        why: The rule, as ``keep_days: 30``.
    """

    at: str
    why: str

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
        path = home / _FILE
        try:
            value = read_sealed(path, _WHAT, _REMEDY)
            return cls(text_of(value, "at"), text_of(value, "why"))
        except NotFoundError:
            return None
        except (KeyError, TypeError) as error:
            raise FormatError(f"expected {_WHAT}: {error}; {_REMEDY}", path=str(path)) from error

    def write(self, home: Path) -> None:
        """Write the note, unless there is one."""
        posix.create_exclusive(home / _FILE, sealed(asdict(self)), is_public=True)
