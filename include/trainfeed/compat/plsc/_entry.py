"""``Entry``: PLSC's setters, and the trainings, tests and predictions that they set up.

Everything that can be checked without the framework is checked before the framework is imported:
settings, folders, the names on the store, lists of images, the first item of a custom reader.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from trainfeed.compat.plsc._checked_values import refused
from trainfeed.compat.plsc._custom_reader import AssignedReader
from trainfeed.compat.plsc._model_transfer import check_store, download_model, upload_model
from trainfeed.compat.plsc._preflight import check_checkpoint, check_training
from trainfeed.compat.plsc._readers_of_entry import AssignedReaders, Readers
from trainfeed.compat.plsc._report import Report
from trainfeed.compat.plsc._sample_form import ReaderKind
from trainfeed.compat.plsc._setters import EntrySetters
from trainfeed.compat.plsc._settings import EntrySettings
from trainfeed.readers import ReaderLike

__all__ = ["Entry"]

logger = logging.getLogger(__name__)


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
            from trainfeed.compat.plsc import _engine

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
            from trainfeed.compat.plsc import _engine

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
            from trainfeed.compat.plsc import _engine

            return _engine.predict(self._settings, readers)

    def convert_for_prediction(self) -> Report:
        """Save the network of ``checkpoint_dir`` without its head into ``model_save_dir``.

        Raises:
            ConfigError: There is no checkpoint.
        """
        check_checkpoint(self._settings)
        check_store(self._settings, uploads=False)
        download_model(self._settings)
        from trainfeed.compat.plsc import _engine

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
