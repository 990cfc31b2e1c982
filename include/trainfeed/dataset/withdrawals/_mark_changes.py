"""Writes the mark of a withdrawal, and takes it back: one step each, and that step decides.

The caller holds the lock of the interval, and has recorded the action in the history.
"""

from __future__ import annotations

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.sealed_json import sealed
from trainfeed.dataset.withdrawals._mark_reading import lifted_path, withdrawal_of
from trainfeed.dataset.withdrawals._withdrawal import Withdrawal
from trainfeed.errors import ConflictError
from trainfeed.storage import posix

__all__ = ["lift_withdrawal", "write_withdrawal"]


def write_withdrawal(folder: DatasetFolder, mark: Withdrawal) -> None:
    """Hide a generation from readers.

    Raises:
        ConflictError: It is withdrawn already; the message has who and why. Nothing was written.
        StorageError: The publication root refused or failed.
    """
    path = folder.withdrawal_mark(mark.interval, mark.generation)
    if not posix.create_exclusive(path, sealed(mark.to_json()), is_public=True):
        first = withdrawal_of(folder, mark.interval, mark.generation)
        raise ConflictError(
            f"{mark.name} is withdrawn already, nothing was written:"
            f" {path if first is None else first.told}"
        )
    faults.point("withdrawal.after_mark")


def lift_withdrawal(folder: DatasetFolder, mark: Withdrawal, by: str) -> None:
    """Give a generation back to readers, by renaming exactly this mark.

    Args:
        folder: The data set.
        mark: The mark, as it was read.
        by: Digest of the decision, 16 hex digits: whoever repeats it finds it carried out.

    Raises:
        ConflictError: The generation has another mark now, or none. Nothing was changed.
        StorageError: The publication root refused or failed.
    """
    path = folder.withdrawal_mark(mark.interval, mark.generation)
    now = withdrawal_of(folder, mark.interval, mark.generation)
    if now is None or now.digest != mark.digest:
        found = "it is not withdrawn any more" if now is None else now.told
        raise ConflictError(
            f"{mark.name} was changed by somebody else meanwhile: {found}; nothing was changed;"
            " look, and try again"
        )
    with posix.map_errors(path):
        path.rename(lifted_path(folder, mark, by))
        faults.point("restoration.after_rename")
        posix.sync_dir(path.parent)
