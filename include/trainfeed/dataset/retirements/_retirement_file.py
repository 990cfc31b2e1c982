"""The file ``versions/<interval>/RETIRED.json``.

It is written before the generations are marked as removed, and is in force once all of them have
their marks. A later generation, which a person asks for with a reason, ends it; the history keeps
it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements._retirement import Retirement
from trainfeed.errors import FormatError
from trainfeed.records import RecordFile

__all__ = ["begun_retirement", "lift_retirement", "retirement_of", "write_retirement"]

_FILE: Final = RecordFile(
    Retirement,
    "the retirement of an interval",
    "the interval counts as retired; build it again with --rebuild 'WHY'",
    to_json=Retirement.to_json,
    from_json=Retirement.from_json,
)


def write_retirement(folder: DatasetFolder, retirement: Retirement) -> None:
    """Write the retirement of an interval, in place of that of an earlier life of it.

    Raises:
        StorageError: The publication root refused or failed.
    """
    named = replace(retirement, dataset=folder.name)
    _FILE.replace(folder.retirement(retirement.interval), named)
    faults.point("retirement.after_file")


def lift_retirement(folder: DatasetFolder, interval: str) -> None:
    """Remove the retirement of an interval that stays after all; the history keeps it.

    Raises:
        StorageError: The publication root refused or failed.
    """
    _FILE.lift(folder.retirement(interval))


def retirement_of(folder: DatasetFolder, interval: str) -> Retirement | None:
    """Return the retirement that is in force, or None.

    Raises:
        StorageError: The publication root refused or failed.
    """
    last = folder.last_generation(interval)
    numbers = range(1, last + 1)
    if any(folder.has_folder(interval, n) and not folder.is_removed(interval, n) for n in numbers):
        return None
    return begun_retirement(folder, interval)


def begun_retirement(folder: DatasetFolder, interval: str) -> Retirement | None:
    """Return the retirement of the present generations, in force or not; None if there is none.

    Raises:
        StorageError: The publication root refused or failed.
    """
    last = folder.last_generation(interval)
    path = folder.retirement(interval)
    try:
        found = _FILE.read(path, interval=interval, dataset=folder.name)
    except FormatError as error:
        return Retirement(interval, last, "", "", "", "", damage=str(error))
    return None if found is None or found.last_generation < last else found
