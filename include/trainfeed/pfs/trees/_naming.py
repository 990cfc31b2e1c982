"""The step that gives a whole file its name in a POSIX tree."""

from __future__ import annotations

import os
from contextlib import suppress

from trainfeed import faults
from trainfeed.errors import ConflictError
from trainfeed.paths import os_errors

__all__ = ["link_file", "mode_at", "name_file", "sync_folder_at"]


def name_file(above: int, unfinished: str, name: str, *, replace: bool, shown: str) -> None:
    """Rename a synced file within its folder; ``sync_folder_at`` makes the name durable.

    Args:
        above: Descriptor of the folder.
        unfinished: Present name.
        name: Final name.
        replace: Whether a file that has the final name is replaced.
        shown: Place of the file, for messages.

    Raises:
        ConflictError: The name is taken by a folder, or by a file that is not to be replaced.
        StorageError: The system refused or failed.
    """
    with os_errors(shown):
        if replace:
            os.rename(unfinished, name, src_dir_fd=above, dst_dir_fd=above)
        else:
            link_file((above, unfinished), (above, name), shown=shown)
    faults.point("pfs.named")


def sync_folder_at(folder: int) -> None:
    """Make the names in a folder durable; ``folder`` may be open for its path only."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def mode_at(above: int, name: str) -> int | None:
    """Return the mode of what has a name, links not followed; None if nothing has it."""
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
    return None


def link_file(old: tuple[int, str], new: tuple[int, str], *, shown: str) -> None:
    """Rename a file to a free name; among any number of callers, one succeeds.

    Args:
        old: Descriptor of the folder that holds the file, and its name there.
        new: Descriptor of the folder of the new name, and the name.
        shown: The new place, for messages.

    Raises:
        ConflictError: The name is taken.
        OSError: The system refused or failed.
    """
    try:
        # A link fails if the name is taken; a rename would replace what has it.
        os.link(old[1], new[1], src_dir_fd=old[0], dst_dir_fd=new[0], follow_symlinks=False)
    except FileExistsError:
        # A network file system repeats a request whose answer was lost, and reports the name as
        # taken by its own first request. Then both names are of one file.
        if not os.path.samestat(_status(*old), _status(*new)):
            raise ConflictError(
                f"{shown}: the name was taken meanwhile; what has it was kept; choose another"
                " name, or allow that it is replaced"
            ) from None
    os.unlink(old[1], dir_fd=old[0])


def _status(above: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=above, follow_symlinks=False)
