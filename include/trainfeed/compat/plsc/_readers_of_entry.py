"""The readers of a training, a test or a prediction: those that were assigned, or the defaults.

The defaults read folders of images with ``label.txt``: ``dataset_dir`` for a training, and the
folders below it that ``val_targets`` names for tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainfeed.compat.plsc._custom_reader import AssignedReader, CustomReader, custom_reader
from trainfeed.compat.plsc._sample_form import SampleForm
from trainfeed.compat.plsc._settings import EntrySettings
from trainfeed.compat.plsc.readers import ImageFolder
from trainfeed.conversion.images import ImageOptions
from trainfeed.errors import ConfigError, NotFoundError

__all__ = ["AssignedReaders", "Readers"]

_SEED = 0


@dataclass(frozen=True)
class AssignedReaders:
    """The readers that the user has assigned; None for the others."""

    train: AssignedReader | None = None
    test: AssignedReader | None = None
    predict: AssignedReader | None = None


@dataclass(frozen=True)
class Readers:
    """The readers of one rank.

    Attributes:
        train: Training data; None for a test or a prediction.
        tests: Name of a test set → its reader; every rank reads the whole set.
        predict: Images of a prediction; None otherwise.
    """

    train: CustomReader | None = None
    tests: Mapping[str, CustomReader] = field(default_factory=dict)
    predict: CustomReader | None = None

    @classmethod
    def for_training(cls, settings: EntrySettings, assigned: AssignedReaders) -> Readers:
        """Return the readers of a training, with those of its tests if it has tests.

        Raises:
            ConfigError: A reader is missing, or yields neither samples nor batches.
            FormatError: A default reader finds a wrong line in its list.
        """
        tests = _tests(settings, assigned) if settings.with_test else {}
        given = assigned.train or AssignedReader(_image_folder(settings, settings.dataset_dir))
        try:
            train = custom_reader("train_reader", given, _form(settings), settings.train_batch_size)
        except BaseException:
            cls(tests=tests).close()
            raise
        return cls(train=train, tests=tests)

    @classmethod
    def for_test(cls, settings: EntrySettings, assigned: AssignedReaders) -> Readers:
        """Return the readers of a test; see ``for_training`` for the errors."""
        return cls(tests=_tests(settings, assigned))

    @classmethod
    def for_prediction(cls, settings: EntrySettings, assigned: AssignedReaders) -> Readers:
        """Return the reader of a prediction.

        Raises:
            ConfigError: ``predict_reader`` is not assigned, or yields neither images nor batches.
        """
        if assigned.predict is None:
            raise ConfigError(
                "expected predict_reader to be assigned, it is not; assign a function that yields"
                " images, or lists of images"
            )
        form = _form(settings, has_labels=False)
        reader = custom_reader("predict_reader", assigned.predict, form, settings.test_batch_size)
        return cls(predict=reader)

    @property
    def num_train_images(self) -> int | None:
        """Number of training images of all ranks together; None if the reader does not know it."""
        read = None if self.train is None else self.train.read
        return read.num_images if isinstance(read, ImageFolder) else None

    def close(self) -> None:
        """End the passes that were begun to see first items, and that nothing has read."""
        for reader in (self.train, *self.tests.values(), self.predict):
            if reader is not None:
                reader.close()


def _tests(settings: EntrySettings, assigned: AssignedReaders) -> dict[str, CustomReader]:
    form, size = _form(settings), settings.test_batch_size
    if assigned.test is not None:
        return {"test": custom_reader("test_reader", assigned.test, form, size)}
    return {
        name: custom_reader(name, AssignedReader(_test_folder(settings, name)), form, size)
        for name in settings.val_targets
    }


def _form(settings: EntrySettings, *, has_labels: bool = True) -> SampleForm:
    return SampleForm(settings.image_shape, settings.num_classes, has_labels)


def _test_folder(settings: EntrySettings, name: str) -> ImageFolder:
    folder = settings.dataset_dir / name
    with _missing_named(
        f"expected the images and label.txt of val_target {name!r} in {folder}, found none (PLSC's"
        " .bin files are pickles, which are not read); assign test_reader, or call"
        " set_with_test(False) before train()"
    ):
        return ImageFolder(folder, images=_images(settings), seed=None)


def _image_folder(settings: EntrySettings, folder: Path) -> ImageFolder:
    with _missing_named(
        f"expected images and label.txt in {folder}, found none; call set_dataset_dir(), or assign"
        " train_reader"
    ):
        return ImageFolder(
            folder,
            images=_images(settings),
            seed=_SEED,
            rank=settings.rank,
            world_size=settings.world_size,
        )


def _images(settings: EntrySettings) -> ImageOptions:
    channels, *size = settings.image_shape
    if channels != 3 or len(size) != 2:
        raise ConfigError(
            f"expected an image_shape of (3, height, width) for folders of images, got"
            f" {settings.image_shape}; assign a reader of your own"
        )
    return ImageOptions(shape=(size[0], size[1]), num_classes=settings.num_classes)


@contextmanager
def _missing_named(message: str) -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise ConfigError(message) from error
