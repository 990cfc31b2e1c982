"""The download of a model before a training, and the upload of the trained one after it.

Rank 0 transfers; the other ranks wait until the whole folder has its name. A folder is complete or
absent on either side, and nothing that is there is replaced.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainfeed.compat.plsc._settings import EntrySettings
from trainfeed.config import name_hadoop_user
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.paths import make_folders, os_errors
from trainfeed.storage import Location
from trainfeed.storage.folder_manifest import read_manifest
from trainfeed.storage.folder_transfer import download, require_writable, upload, wait_for

__all__ = ["check_store", "download_model", "upload_model"]

_LONGEST_DOWNLOAD_S: Final = 3600.0

logger = logging.getLogger(__name__)


def check_store(settings: EntrySettings, *, uploads: bool) -> None:
    """Look at the folders on the store before a training, which may take days.

    Args:
        settings: The settings; without folders on a store nothing is done.
        uploads: Whether a training follows, which uploads its models.

    Raises:
        ConfigError: The name for the upload is taken, or the folder above it is missing; or there
            is no folder to download; or ``HADOOP_USER_NAME`` names another user.
        AccessDeniedError: The account may not write beside the name for the upload.
        StorageError: The store refuses, or cannot be reached.
    """
    hdfs = settings.hdfs
    if hdfs is None:
        return
    if hdfs.is_named_by_environment:
        name_hadoop_user(hdfs.user)
    logger.info("the password of fs_ugi is not used: HDFS takes a user's name or a Kerberos ticket")
    if uploads and hdfs.save is not None:
        _check_target(Location.parse(hdfs.save), tries=settings.rank == 0)
    if hdfs.checkpoint is not None:
        _check_source(Location.parse(hdfs.checkpoint))


def download_model(settings: EntrySettings, *, timeout_s: float = _LONGEST_DOWNLOAD_S) -> None:
    """Download the model to start from into ``checkpoint_dir``, or wait until rank 0 has done so.

    An empty ``checkpoint_dir`` is replaced, an equal one is kept, any other one is an error.

    Args:
        settings: The settings; without a folder to download nothing is done.
        timeout_s: Longest wait of the other ranks in seconds.

    Raises:
        TrainFeedError: The errors of ``trainfeed.storage.folder_transfer``; ``checkpoint_dir`` is
            unchanged.
    """
    folder = settings.checkpoint_dir
    if folder is None or settings.hdfs is None or settings.hdfs.checkpoint is None:
        return
    source = Location.parse(settings.hdfs.checkpoint)
    # An empty folder stands for none, on every rank: a waiting one must not take it for a model.
    _remove_if_empty(folder)
    if settings.rank != 0:
        manifest = read_manifest(source)
        expected = None if manifest is None else manifest.sha256
        wait_for(folder, timeout_s=timeout_s, manifest_sha256=expected)
        return
    with os_errors(folder):
        make_folders(folder.parent)
    report = download(source, folder)
    known = "" if report.is_proven else "; the folder has no manifest, only sizes were compared"
    logger.info("%s %s: %d files%s", report.verdict, report.target, report.files, known)


def upload_model(settings: EntrySettings) -> None:
    """Upload ``model_save_dir`` after a training, from rank 0.

    Raises:
        TrainFeedError: The errors of ``trainfeed.storage.folder_transfer``; the model stays in
            ``model_save_dir``.
    """
    folder = settings.model_save_dir
    target = None if settings.hdfs is None else settings.hdfs.save
    if folder is None or target is None or settings.rank != 0:
        return
    report = upload(folder, Location.parse(target))
    logger.info("%s %s: %d files", report.verdict, report.target, report.files)


def _check_source(source: Location) -> None:
    if not source.exists():
        raise ConfigError(
            f"expected a model in {source.uri}, there is none; nothing was trained; correct"
            " fs_checkpoint_dir"
        )


def _check_target(target: Location, *, tries: bool) -> None:
    if target.exists():
        raise ConfigError(
            f"expected a new name for the model, {target.uri} is taken; nothing was trained; name"
            " another fs_dir_for_save for each training"
        )
    try:
        target.parent.stat()
    except NotFoundError as error:
        raise ConfigError(
            f"expected the folder {target.parent.uri} for the upload, there is none; nothing was"
            " trained; make it, or correct fs_dir_for_save"
        ) from error
    if tries:
        require_writable(target)


def _remove_if_empty(folder: Path) -> None:
    # OSError: there is no folder, or it has files; the transfer tells these apart.
    with suppress(OSError):
        folder.rmdir()
