"""The proof, hours before an upload, that the store lets this account make and delete folders."""

from __future__ import annotations

from trainfeed.storage._location import Location
from trainfeed.storage.folders._patience import Patience
from trainfeed.storage.folders._temporary_folder import remove_leftovers, temporary_folder

__all__ = ["require_writable"]


def require_writable(target: Location, *, patience: Patience | None = None) -> None:
    """Make a temporary folder beside ``target`` and delete it: only this shows rights and quotas.

    What a kill leaves, the next proof or upload for the target removes.

    Args:
        target: A name that an upload will use; the folder above it must exist.
        patience: How often calls to the store are repeated; five times by default.

    Raises:
        NotFoundError: The folder above the target is not there.
        AccessDeniedError: The account may not list, make or delete folders there.
        StorageError: The store refused or failed.
    """
    patience = patience or Patience()
    patience.call(lambda: remove_leftovers(target))
    with temporary_folder(target, patience) as temporary:
        # The end of the block only logs an error of the deletion.
        patience.call(temporary.delete)
