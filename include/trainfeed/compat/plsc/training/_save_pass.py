"""Saves the checkpoints of an ``Entry``: a folder for each pass, which appears whole by one rename.

All ranks write into one folder. ``_saved_passes`` has the files of a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed import faults
from trainfeed.compat.plsc.training._saved_passes import (
    META_FILE,
    NETWORK_FILE,
    NOTE_FILE,
    PASS_NAME,
    CheckpointNote,
)
from trainfeed.errors import ConflictError, UnsuitableStoreError
from trainfeed.jobs import digested_below, seal_checkpoint_note
from trainfeed.paths import (
    durable_file,
    is_unfinished,
    listed,
    make_folders,
    sync_folder,
    unfinished_name,
)
from trainfeed.storage import posix

if TYPE_CHECKING:
    from trainfeed.compat.plsc.training._ranks import Ranks

__all__ = ["remove_unfinished", "save_checkpoint"]

_WHOLE_HEAD: Final = "fc.npz"


def save_checkpoint(
    folder: Path,
    note: CheckpointNote,
    network: Mapping[str, NDArray[Any]],
    head: Mapping[str, NDArray[Any]] | None,
    ranks: Ranks,
) -> Path:
    """Save a checkpoint under the number of the last pass; one of that name is replaced.

    Args:
        folder: Folder of all checkpoints, one for all ranks.
        note: What the checkpoint says about its training.
        network: Values that all ranks have in common; rank 0 writes them.
        head: Values of the head of this rank; None for a network without one.
        ranks: The ranks; all of them call this function.

    Returns:
        The folder of the checkpoint.

    Raises:
        StorageError: The checkpoint could not be written; earlier ones are untouched.
        UnsuitableStoreError: The ranks do not see one folder.
    """
    target = folder / str(note.epoch - 1)
    staging = folder / f"{target.name}.{ranks.shared_name()}.tmp"
    divided = note.loss_type.startswith("dist_")
    try:
        if ranks.is_first:
            make_folders(staging)
            _write_arrays(staging / NETWORK_FILE, network)
        ranks.wait()
        if head is not None and (divided or ranks.is_first):
            _require_shared(staging)
            _write_arrays(staging / (_head_name(ranks.rank) if divided else _WHOLE_HEAD), head)
        ranks.wait()
        if ranks.is_first:
            _seal(staging, note, ranks.world_size if divided else 0)
            faults.point("plsc_checkpoint.before_rename")
            _publish(staging, target)
    finally:
        if ranks.is_first:
            posix.remove_tree(staging)
    ranks.wait()
    return target


def remove_unfinished(folder: Path, ranks: Ranks) -> None:
    """Remove what killed ranks have left beside the checkpoints of a folder.

    Args:
        folder: Folder of all checkpoints, one for all ranks.
        ranks: The ranks; all of them call this function, and the first one removes.
    """
    if ranks.is_first:
        _remove_unfinished(folder)
    ranks.wait()


def _seal(staging: Path, note: CheckpointNote, num_heads: int) -> None:
    """Write the note, after the files that it names are durable."""
    with durable_file(staging / META_FILE) as file:
        file.write(json.dumps(note.meta()).encode())
    files = digested_below(staging)
    if missing := [name for name in map(_head_name, range(num_heads)) if name not in files]:
        raise _not_shared(staging, ", ".join(missing))
    with durable_file(staging / NOTE_FILE) as file:
        file.write(seal_checkpoint_note(asdict(note), files))
    sync_folder(staging)


def _publish(staging: Path, target: Path) -> None:
    try:
        posix.rename_directory(staging, target)
    except ConflictError:
        # Renamed before it is removed: a kill leaves no partial checkpoint under the name.
        away = target.with_name(unfinished_name(target.name))
        posix.rename_directory(target, away)
        posix.rename_directory(staging, target)
        posix.remove_tree(away)
    posix.sync_dir(target.parent)
    _remove_unfinished(target.parent)


def _remove_unfinished(folder: Path) -> None:
    for path in listed(folder):
        if is_unfinished(path.name) and PASS_NAME.fullmatch(path.name.split(".")[0]):
            posix.remove_tree(path)


def _require_shared(staging: Path) -> None:
    if not staging.is_dir():
        raise _not_shared(staging, str(staging))


def _not_shared(staging: Path, missing: str) -> UnsuitableStoreError:
    return UnsuitableStoreError(
        f"expected one folder {staging.parent} for all ranks, got one without {missing}, which"
        " another rank has written; the checkpoint was not saved, earlier ones are kept; set"
        " model_save_dir to a folder that all machines share"
    )


def _head_name(rank: int) -> str:
    return f"dist@fc@rank@{rank:05d}.npz"


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    with durable_file(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
