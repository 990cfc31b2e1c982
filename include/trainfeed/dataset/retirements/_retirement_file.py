"""The file ``versions/<interval>/RETIRED.json``.

It is written before the generations are marked as removed, and is in force once all of them have
their marks. A later generation, which a person asks for with a reason, ends it; the history keeps
it.
"""

from __future__ import annotations

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements._retirement import Retirement
from trainfeed.dataset.sealed_json import read_sealed, write_sealed
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.storage import posix

__all__ = ["begun_retirement", "lift_retirement", "retirement_of", "write_retirement"]

_REMEDY = "the interval counts as retired; a build with --rebuild 'WHY' makes it anew"


def write_retirement(folder: DatasetFolder, retirement: Retirement) -> None:
    """Write the retirement of an interval, in place of that of an earlier life of it.

    Raises:
        StorageError: The publication root refused or failed.
    """
    write_sealed(folder.retirement(retirement.interval), retirement.to_json())
    faults.point("retirement.after_file")


def lift_retirement(folder: DatasetFolder, interval: str) -> None:
    """Remove the retirement of an interval that stays after all; the history keeps it.

    Raises:
        StorageError: The publication root refused or failed.
    """
    path = folder.retirement(interval)
    with posix.map_errors(path):
        path.unlink(missing_ok=True)
    posix.sync_dir(path.parent)


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
        value = read_sealed(path, "the retirement of an interval", _REMEDY)
        found = Retirement.from_json(value)
    except NotFoundError:
        return None
    except (FormatError, KeyError, TypeError, ValueError, WindowError) as error:
        return Retirement(interval, last, "", "", "", "", damage=str(error))
    return found if found.last_generation >= last else None
