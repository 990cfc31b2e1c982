"""``Entry``: checks before a training, transfers of its model, trainings, tests, predictions."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed.compat.plsc.checkpoints import saved_passes
from trainfeed.compat.plsc.entry_readers import AssignedReader, AssignedReaders, ReaderKind, Readers
from trainfeed.compat.plsc.setters import EntrySetters, refused
from trainfeed.compat.plsc.settings import EntrySettings, Report
from trainfeed.core.config import name_hadoop_user
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.files import listed, make_folders, os_errors
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_manifest import read_manifest
from trainfeed.files.stores.folder_transfer import download, require_writable, upload, wait_for
from trainfeed.readers import ReaderLike

# --- Checks before a training, a test or a prediction: what can fail later fails before it begins


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
            " set_mixed_precision(False), or see docs/guides/frameworks.md for"
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


# --- The download of a model before a training, and the upload of the trained one after it

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
        TrainFeedError: The errors of ``trainfeed.files.stores.folder_transfer``;
            ``checkpoint_dir`` is unchanged.
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
        TrainFeedError: The errors of ``trainfeed.files.stores.folder_transfer``; the model stays in
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


# --- ``Entry``: PLSC's setters, and the trainings, tests and predictions that they set up


class Entry(EntrySetters):
    """A classification training, set up by setters and started by ``train()``.

    Rank and number of ranks come from ``PADDLE_TRAINER_ID`` and ``PADDLE_TRAINERS_NUM``. The
    defaults are those of PLSC; see ``EntrySettings``.

    Attributes:
        train_reader: Function that yields the training samples of this rank, ``(image, label)``, or
            batches, which are lists of samples. The first item decides; see ``set_train_reader``.
        test_reader: The same for tests; every rank reads the whole test set.
        predict_reader: Function that yields images, or lists of images.

    Raises:
        ConfigError: The environment has no valid rank.
    """

    __slots__ = ("_assigned",)

    def __init__(self) -> None:
        super().__init__()
        self._assigned = AssignedReaders()

    @property
    def train_reader(self) -> ReaderLike | None:
        """The reader of training samples or batches; None reads ``dataset_dir``."""
        return _read_of(self._assigned.train)

    @train_reader.setter
    def train_reader(self, reader: ReaderLike | None) -> None:
        self._assigned = replace(self._assigned, train=_assigned("train_reader", reader))

    @property
    def test_reader(self) -> ReaderLike | None:
        """The reader of test samples or batches; None reads the folders of ``val_targets``."""
        return _read_of(self._assigned.test)

    @test_reader.setter
    def test_reader(self, reader: ReaderLike | None) -> None:
        self._assigned = replace(self._assigned, test=_assigned("test_reader", reader))

    @property
    def predict_reader(self) -> ReaderLike | None:
        """The reader of images, or lists of images, for ``predict()``."""
        return _read_of(self._assigned.predict)

    @predict_reader.setter
    def predict_reader(self, reader: ReaderLike | None) -> None:
        self._assigned = replace(self._assigned, predict=_assigned("predict_reader", reader))

    def set_train_reader(
        self, *, sample_reader: ReaderLike | None = None, batch_reader: ReaderLike | None = None
    ) -> None:
        """Set the training data and say what the reader yields: samples, or lists of samples."""
        given = _named("train_reader", sample_reader, batch_reader)
        self._assigned = replace(self._assigned, train=given)

    def set_test_reader(
        self, *, sample_reader: ReaderLike | None = None, batch_reader: ReaderLike | None = None
    ) -> None:
        """Set the test data and say what the reader yields: samples, or lists of samples."""
        given = _named("test_reader", sample_reader, batch_reader)
        self._assigned = replace(self._assigned, test=given)

    def set_predict_reader(
        self, *, sample_reader: ReaderLike | None = None, batch_reader: ReaderLike | None = None
    ) -> None:
        """Set the images of a prediction and say what the reader yields: images, or lists."""
        given = _named("predict_reader", sample_reader, batch_reader)
        self._assigned = replace(self._assigned, predict=given)

    def train(self) -> Report:
        """Train, with a test after each epoch unless ``set_with_test(False)`` was called.

        Raises:
            ConfigError: A setting is missing or wrong; nothing was trained.
            FormatError: A line of ``label.txt`` is wrong; nothing was trained.
            SampleShapeError: A sample has another shape, or a label that is no class.
            StorageError: The store refuses or fails; before the training nothing was trained,
                after it the model stays in ``model_save_dir``, and a second call with this folder
                as ``checkpoint_dir`` only uploads it.
        """
        check_training(self._settings)
        check_store(self._settings, uploads=True)
        with _closing(Readers.for_training(self._settings, self._assigned)) as readers:
            settings = _with_image_num(self._settings, readers)
            download_model(settings)
            from trainfeed.compat.plsc import engine as _engine

            report = _engine.train(settings, readers)
        upload_model(settings)
        return report

    def test(self) -> Report:
        """Measure the accuracy of the model in ``checkpoint_dir`` on each test set.

        Raises:
            ConfigError: There is no checkpoint or no test set.
        """
        check_checkpoint(self._settings)
        check_store(self._settings, uploads=False)
        with _closing(Readers.for_test(self._settings, self._assigned)) as readers:
            download_model(self._settings)
            from trainfeed.compat.plsc import engine as _engine

            return _engine.test(self._settings, readers)

    def predict(self) -> Report:
        """Compute the embeddings of the images of ``predict_reader``.

        Raises:
            ConfigError: There is no checkpoint or no ``predict_reader``.
        """
        check_checkpoint(self._settings)
        check_store(self._settings, uploads=False)
        with _closing(Readers.for_prediction(self._settings, self._assigned)) as readers:
            download_model(self._settings)
            from trainfeed.compat.plsc import engine as _engine

            return _engine.predict(self._settings, readers)

    def convert_for_prediction(self) -> Report:
        """Save the network of ``checkpoint_dir`` without its head into ``model_save_dir``.

        Raises:
            ConfigError: There is no checkpoint.
        """
        check_checkpoint(self._settings)
        check_store(self._settings, uploads=False)
        download_model(self._settings)
        from trainfeed.compat.plsc import engine as _engine

        return _engine.convert_for_prediction(self._settings)


def _assigned(
    name: str, reader: ReaderLike | None, kind: ReaderKind | None = None
) -> AssignedReader | None:
    if reader is None:
        return None
    if not callable(reader):
        raise refused(
            f"{name} as a function without arguments that returns an iterator (assign the function"
            " itself, not the result of its call)",
            reader,
        )
    return AssignedReader(reader, kind)


def _read_of(assigned: AssignedReader | None) -> ReaderLike | None:
    return None if assigned is None else assigned.read


def _named(
    name: str, sample_reader: ReaderLike | None, batch_reader: ReaderLike | None
) -> AssignedReader | None:
    if (sample_reader is None) == (batch_reader is None):
        raise refused("one of sample_reader and batch_reader", (sample_reader, batch_reader))
    if sample_reader is not None:
        return _assigned(name, sample_reader, ReaderKind.SAMPLES)
    return _assigned(name, batch_reader, ReaderKind.BATCHES)


@contextmanager
def _closing(readers: Readers) -> Iterator[Readers]:
    try:
        yield readers
    finally:
        readers.close()


def _with_image_num(settings: EntrySettings, readers: Readers) -> EntrySettings:
    """Return the settings with the number of images that the default reader has counted."""
    found = readers.num_train_images
    if found is None or found == settings.train_image_num:
        return settings
    logger.info("train_image_num is %d as in label.txt, not %d", found, settings.train_image_num)
    return replace(settings, train_image_num=found)
