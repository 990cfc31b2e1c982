"""Checkpoints of an ``Entry`` as they are read: what they say of their training, and their values.

::

    saved_model/3/                        number of the pass
      meta.json                           emb_dim, num_classes, pretrain_nranks, as in PLSC
      network.npz                         parameters, running statistics, state of the optimizer
      dist@fc@rank@00000.npz, …           the classes of each rank, of a divided head; or
      fc.npz                              all classes
      checkpoint.json                     where the training is, size and digest of each file
    saved_model/4.<hex>.tmp/              being written, or left by a rank that was killed

A divided head is read by any number of ranks.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed import canonical_json
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.jobs import read_checkpoint_note
from trainfeed.paths import listed, os_errors, read_plain

__all__ = [
    "META_FILE",
    "NETWORK_FILE",
    "NOTE_FILE",
    "PASS_NAME",
    "CheckpointNote",
    "Saved",
    "newest_checkpoint",
    "read_checkpoint",
    "saved_passes",
]

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
