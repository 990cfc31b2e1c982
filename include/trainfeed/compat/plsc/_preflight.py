"""Checks before a training, a test or a prediction: what can fail later fails before it begins."""

from __future__ import annotations

import tempfile
from pathlib import Path

from trainfeed.compat.plsc._settings import EntrySettings
from trainfeed.compat.plsc.training import saved_passes
from trainfeed.errors import ConfigError
from trainfeed.paths import listed, make_folders, os_errors

__all__ = ["check_checkpoint", "check_training"]


def check_training(settings: EntrySettings) -> None:
    """Check the settings of a training, and make the folder for its checkpoints.

    Raises:
        ConfigError: A setting is missing, contradicts another, or cannot be met here.
        StorageError: The folder cannot be made.
    """
    _check_precision(settings)
    _check_ranks(settings)
    _check_transfers(settings)
    if settings.checkpoint_dir is not None:
        check_checkpoint(settings)
    if settings.model_save_dir is not None:
        _check_passes(settings, settings.model_save_dir)
        _check_writable(settings.model_save_dir)


def check_checkpoint(settings: EntrySettings) -> None:
    """Check that there is a checkpoint to start from, or a folder to download one from.

    Raises:
        ConfigError: ``checkpoint_dir`` is not set, or is missing or empty.
    """
    folder = settings.checkpoint_dir
    if folder is None:
        raise ConfigError("expected a model to start from, got none; call set_checkpoint_dir()")
    if settings.hdfs is not None and settings.hdfs.checkpoint is not None:
        return
    if not folder.is_dir() or not listed(folder):
        raise ConfigError(
            f"expected a checkpoint in {folder}, found none; correct set_checkpoint_dir(), or name"
            " the folder to download by set_hdfs_info(fs_checkpoint_dir=…)"
        )


def _check_precision(settings: EntrySettings) -> None:
    if settings.mixed_precision is not None and settings.mixed_precision.use_fp16:
        raise ConfigError(
            "expected float32, got set_mixed_precision(True): this training runs on the CPU, where"
            " PaddlePaddle computes in float32 without saying so; nothing was trained; call"
            " set_mixed_precision(False), or see docs/guides/frameworks/mixed-precision.md for"
            " bfloat16 on the CPU with torch"
        )


def _check_ranks(settings: EntrySettings) -> None:
    if settings.loss_type.is_divided and settings.world_size == 1:
        raise ConfigError(
            f"expected two ranks or more for loss_type {settings.loss_type.value}, which divides"
            " the classes among ranks, got one; nothing was trained; call"
            f" set_loss_type({settings.loss_type.value.removeprefix('dist_')!r}), or start the"
            " ranks by Paddle's launcher"
        )


def _check_transfers(settings: EntrySettings) -> None:
    if settings.hdfs is None:
        return
    save, model = settings.hdfs.save, settings.model_save_dir
    if model is not None and save is None:
        raise ConfigError(
            f"expected set_hdfs_info(…, fs_dir_for_save=…) beside model_save_dir {model}, got none;"
            " nothing was trained; name the folder, or call set_model_save_dir(None)"
        )
    # A checkpoint_dir alone is a local one, such as that of a training whose upload failed.
    pairs = (
        ("fs_dir_for_save", save, "model_save_dir", model),
        ("fs_checkpoint_dir", settings.hdfs.checkpoint, "checkpoint_dir", settings.checkpoint_dir),
    )
    for remote_name, remote, local_name, local in pairs:
        if local is None and remote is not None:
            raise ConfigError(
                f"expected set_{local_name}() beside {remote_name} {remote}, got none; nothing was"
                " trained"
            )
    if settings.hdfs.checkpoint is not None and settings.checkpoint_dir == settings.model_save_dir:
        raise ConfigError(
            f"expected two folders for the downloaded and the trained model, got"
            f" {settings.checkpoint_dir} as both; nothing was trained; call set_model_save_dir()"
        )


def _check_passes(settings: EntrySettings, folder: Path) -> None:
    """Check that no pass in the folder can be taken for one of this training."""
    last = _last_own_pass(settings, folder)
    others = [number for path in saved_passes(folder) if (number := int(path.name)) > last]
    if others:
        own = f"no pass but those up to {last}" if last >= 0 else "no passes"
        raise ConfigError(
            f"expected {own} in model_save_dir {folder}, got passes {others[-1]} to {others[0]};"
            " nothing was trained; the passes would be taken for those of this training; call"
            " set_model_save_dir() with an empty folder; or, to continue after the newest pass,"
            " set_checkpoint_dir() with the same folder and set_train_epochs() with more passes"
        )


def _last_own_pass(settings: EntrySettings, folder: Path) -> int:
    """Return the number of the last pass that this training may find in a folder, or -1."""
    if settings.checkpoint_dir is None:
        return -1
    start, saved = settings.checkpoint_dir.resolve(), folder.resolve()
    if start == saved:
        return settings.train_epochs - 1
    is_own = start in saved_passes(saved)
    return int(start.name) if is_own else -1


def _check_writable(folder: Path) -> None:
    with os_errors(folder):
        make_folders(folder)
        # A file without a name shows more than permissions: a full or read-only file system too.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
