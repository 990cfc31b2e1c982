"""Checkpoints of an ``Entry``: a folder for each pass, which appears whole, and is read back."""

from __future__ import annotations

import json
import logging
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.core import canonical_json, faults
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    UnsuitableStoreError,
)
from trainfeed.files import (
    durable_file,
    is_unfinished,
    listed,
    make_folders,
    os_errors,
    read_plain,
    sync_folder,
    unfinished_name,
)
from trainfeed.files.stores import posix
from trainfeed.training.jobs import digested_below, read_checkpoint_note, seal_checkpoint_note

if TYPE_CHECKING:
    from trainfeed.compat.plsc.classifier import Ranks


# --- Checkpoints of an ``Entry`` as they are read: what they say of their training

NOTE_FILE: Final = "checkpoint.json"
META_FILE: Final = "meta.json"
NETWORK_FILE: Final = "network.npz"
PASS_NAME: Final = re.compile("[0-9]{1,9}")
_POWER: Final = "_pow_acc"
_MAX_BYTES: Final = 16 << 20

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckpointNote:
    """What a checkpoint says about its training.

    Attributes:
        epoch: Number of the next pass.
        step: Number of the next step, over all passes.
        loss_type: Name of the head; empty for a network without one.
        emb_dim: Length of an embedding.
        num_classes: Number of classes.
        pretrain_nranks: Number of ranks that trained.
        scheduler: State of the user's scheduler; empty without one.
    """

    epoch: int
    step: int
    loss_type: str
    emb_dim: int
    num_classes: int
    pretrain_nranks: int
    scheduler: Mapping[str, Any]

    def meta(self) -> dict[str, int]:
        """Return the content of ``meta.json``."""
        names = ("emb_dim", "num_classes", "pretrain_nranks")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Saved:
    """A checkpoint whose files have all been verified.

    Attributes:
        path: The folder.
        note: What it says about its training.
        network: Name → values of the network.
        heads: The same of the head, for each rank that trained; empty without a head.
    """

    path: Path
    note: CheckpointNote
    network: Mapping[str, NDArray[Any]]
    heads: tuple[Mapping[str, NDArray[Any]], ...]

    def arrays(self, first: int, end: int) -> dict[str, NDArray[Any]]:
        """Return the values of the network, and those of the classes from ``first`` to ``end``."""
        head: dict[str, NDArray[Any]] = {}
        for name, values in (self.heads[0] if self.heads else {}).items():
            parts = [head[name] for head in self.heads]
            if _has_columns(name, values, self.heads[0]):
                head[name] = np.concatenate(parts, axis=-1)[..., first:end]
            else:
                head[name] = values
        return {**self.network, **head}


def newest_checkpoint(folder: Path) -> Saved:
    """Return the checkpoint in a folder, or the newest whole one of those below it.

    Raises:
        FormatError: The checkpoint in the folder is damaged.
        NotFoundError: There is none that is whole.
    """
    if (folder / NOTE_FILE).exists():
        return read_checkpoint(folder)
    for path in saved_passes(folder):
        try:
            return read_checkpoint(path)
        except (FormatError, NotFoundError) as error:
            logger.warning("checkpoint %s is not whole and is passed over: %s", path, error)
    raise NotFoundError(
        f"expected a checkpoint, or folders of passes with checkpoints, in {folder}, got none that"
        f" is whole (a checkpoint has {NOTE_FILE} and {META_FILE}); nothing was trained; set"
        " checkpoint_dir to a folder that a training has saved"
    )


def saved_passes(folder: Path) -> list[Path]:
    """Return the folders that are named by a pass, the newest first; none of them is read."""
    if not folder.is_dir():
        return []
    named = [path for path in listed(folder) if PASS_NAME.fullmatch(path.name)]
    return sorted(named, key=lambda path: int(path.name), reverse=True)


def read_checkpoint(path: Path) -> Saved:
    """Read a checkpoint, after all of its files are verified.

    Raises:
        ChecksumError: A file differs from the note in size or digest.
        ConfigError: ``meta.json`` says something else than the note.
        FormatError: ``checkpoint.json`` is damaged.
        NotFoundError: A file of the checkpoint is gone.
    """
    note, files = read_checkpoint_note(path / NOTE_FILE, CheckpointNote)
    _require_meta(path, note)
    heads = sorted(name for name in files if name not in {META_FILE, NETWORK_FILE})
    return Saved(
        path,
        note,
        _read_arrays(path / NETWORK_FILE),
        tuple(_read_arrays(path / name) for name in heads),
    )


def _has_columns(name: str, values: NDArray[Any], head: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether values of a head have a column for each class, as its parameters have.

    An optimizer's values have the shape of their parameter, or are numbers equal on all ranks, such
    as Adam's powers, whose shape is that of a bias of one class.
    """
    own = name.removeprefix("optimizer/")
    of_parameters = (head[each].shape for each in head if own.startswith(each))
    return values.shape in of_parameters and _POWER not in name


def _require_meta(path: Path, note: CheckpointNote) -> None:
    data = read_plain(path / META_FILE, follow=False, max_bytes=_MAX_BYTES)
    if (found := canonical_json.loads(data, path=str(path / META_FILE))) != note.meta():
        raise ConfigError(
            f"expected {note.meta()} in {path / META_FILE}, as {NOTE_FILE} says, got {found};"
            " nothing was trained; download or save the checkpoint again"
        )


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with os_errors(path), np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, zipfile.BadZipFile) as error:
        raise FormatError(f"expected arrays of numbers: {error}", path=str(path)) from error


# --- Saves the checkpoints of an ``Entry``: a folder for each pass

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
