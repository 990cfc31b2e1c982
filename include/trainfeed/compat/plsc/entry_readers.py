"""The readers of an ``Entry``: those that a user assigns, the defaults, and what they yield."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import GeneratorType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat.plsc.readers.jpeg import ImageFolder
from trainfeed.compat.plsc.settings import EntrySettings
from trainfeed.conversion.images import ImageOptions
from trainfeed.core.whole_numbers import whole_value
from trainfeed.decorators import batch, resumable, set_epoch
from trainfeed.errors import ConfigError, NotFoundError, SampleShapeError
from trainfeed.readers import ReaderLike, SeekableReader, leave_out, open_reader

# --- The form of a sample: tells samples from batches of samples, and makes arrays of a batch

_NO_NUMBERS: Final = -1


class ReaderKind(StrEnum):
    """The items of a reader."""

    SAMPLES = "samples"
    BATCHES = "batches"


@dataclass(frozen=True)
class ImageBatch:
    """The samples of one step of one rank.

    Attributes:
        images: Shape ``(n, *image_shape)``, float32.
        labels: Shape ``(n,)``, int64; None for a prediction.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64] | None


@dataclass(frozen=True)
class SampleForm:
    """The form of the samples of one training, test or prediction.

    A sample is a tuple or list of an image and a label. In a prediction it may also be an image
    alone, or a tuple with an image alone. A batch is a list or tuple of samples.

    Attributes:
        image_shape: Shape of an image.
        num_classes: Labels are from 0 to ``num_classes - 1``.
        has_labels: Whether samples need labels; a prediction drops them.
    """

    image_shape: tuple[int, ...]
    num_classes: int
    has_labels: bool = True

    def kinds_of(self, item: Any) -> list[ReaderKind]:
        """Return what an item of a reader can be: one kind, both, or none."""
        kinds = []
        if self._is_sample(item):
            kinds.append(ReaderKind.SAMPLES)
        # Batches are lists; a tuple is one only if it can be nothing else.
        may_be_batch = isinstance(item, list) or (isinstance(item, tuple) and not kinds)
        if may_be_batch and item and all(map(self._is_sample, item)):
            kinds.append(ReaderKind.BATCHES)
        return kinds

    def stacked(self, rows: Any, place: str) -> ImageBatch:
        """Return the arrays of a batch.

        Args:
            rows: The samples.
            place: Reader and batch, for messages.

        Raises:
            SampleShapeError: The batch is no list of samples, or a sample has another shape, or a
                label that is no class.
        """
        if not isinstance(rows, list | tuple) or not rows:
            raise SampleShapeError(f"{place}: expected a list of samples, got {described(rows)}")
        pairs = [self._columns(row, f"{place}, sample {i}") for i, row in enumerate(rows)]
        images = [self._image(image, f"{place}, sample {i}") for i, (image, _) in enumerate(pairs)]
        if not self.has_labels:
            return ImageBatch(np.stack(images), None)
        labels = [self._label(label, f"{place}, sample {i}") for i, (_, label) in enumerate(pairs)]
        return ImageBatch(np.stack(images), np.array(labels, np.int64))

    def _is_sample(self, item: Any) -> bool:
        if isinstance(item, list | tuple):
            if len(item) == 2 and self._is_image(item[0]) and num_dimensions(item[1]) == 0:
                return True
            if not self.has_labels and len(item) == 1 and self._is_image(item[0]):
                return True
        return not self.has_labels and self._is_image(item)

    def _is_image(self, value: Any) -> bool:
        return num_dimensions(value) == len(self.image_shape)

    def _columns(self, row: Any, place: str) -> tuple[Any, Any]:
        if isinstance(row, list | tuple) and len(row) == 2 and num_dimensions(row[1]) == 0:
            return row[0], row[1]
        if self.has_labels:
            raise SampleShapeError(f"{place}: expected (image, label), got {described(row)}")
        is_alone = isinstance(row, list | tuple) and len(row) == 1 and not self._is_image(row)
        return (row[0] if is_alone else row), None

    def _image(self, value: Any, place: str) -> NDArray[np.float32]:
        try:
            image = np.asarray(value, np.float32)
        except (TypeError, ValueError):
            raise SampleShapeError(
                f"{place}: expected an image of numbers, got {described(value)}"
            ) from None
        if image.shape != self.image_shape:
            raise SampleShapeError(
                f"{place}: expected an image of shape {self.image_shape}, got {image.shape};"
                " resize images in the reader, or call set_image_shape()"
            )
        return image

    def _label(self, value: Any, place: str) -> int:
        number = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
        try:
            return whole_value("a label", number, 0, self.num_classes - 1)
        except ValueError as error:
            remedy = "write int(label)" if isinstance(number, str) else "see set_class_num()"
            raise SampleShapeError(f"{place}: {error}; {remedy} in the reader") from None


def num_dimensions(value: Any) -> int:
    """Return the dimensions of a value, with 0 for a number or an array of one; -1 for no array."""
    if isinstance(value, str):
        return 0  # a label that was not converted: its own message follows
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return _NO_NUMBERS
    if array.dtype.kind not in "biuf":
        return _NO_NUMBERS
    return 0 if array.shape == (1,) else array.ndim


def described(value: Any) -> str:
    """Return types and shapes of an item, for messages: values may be large."""
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape} in {value.dtype}"
    if not isinstance(value, list | tuple):
        return f"{type(value).__name__} {value!r:.40}"
    return f"{type(value).__name__} of {len(value)}: {_described_parts(value)}"


def _described_parts(values: Sequence[Any]) -> str:
    shown = ", ".join(
        f"{type(v).__name__} of {len(v)}" if isinstance(v, list | tuple) else described(v)
        for v in values[:3]
    )
    return f"{shown}, …" if len(values) > 3 else shown


# --- Readers that a user assigns to an entry, and the finding of what they yield

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AssignedReader:
    """A reader as the user assigned it.

    Attributes:
        read: The reader.
        kind: The kind that the user has named; None to find it out.
    """

    read: ReaderLike
    kind: ReaderKind | None = None


@dataclass(frozen=True)
class CustomReader:
    """A reader of one rank whose kind is known.

    Attributes:
        name: Name of the reader, for messages.
        read: The reader.
        kind: What the reader yields.
        batch_size: Samples per batch for a reader of samples; a reader of batches has its own.
        form: The form of a sample.
    """

    name: str
    read: ReaderLike
    kind: ReaderKind
    batch_size: int
    form: SampleForm

    def batches(self, epoch: int, first: int = 0) -> Iterator[ImageBatch]:
        """Yield the batches of a pass; the last one may have fewer samples.

        Args:
            epoch: Number of the pass, for readers that shuffle.
            first: Number of batches to skip, for a training that continues.

        Raises:
            SampleShapeError: A sample has another shape, or a label that is no class.
            ReaderEndedError: There are fewer batches than ``first``.
        """
        with open_reader(lambda: self._lists(epoch, first)) as lists:
            for number, rows in enumerate(lists, first):
                yield self.form.stacked(rows, f"{self.name}, batch {number}")

    def _lists(self, epoch: int, first: int) -> Iterator[Any]:
        if self.kind is ReaderKind.SAMPLES and isinstance(self.read, SeekableReader) and first:
            return self._lists_from(self.read, epoch, first)
        is_batched = self.kind is ReaderKind.BATCHES
        reader = resumable(self.read if is_batched else batch(self.read, self.batch_size))
        reader.load_state_dict({"epoch": epoch, "position": first})
        return reader()

    def _lists_from(self, read: SeekableReader, epoch: int, first: int) -> Iterator[Any]:
        """Yield the batches of a reader that skips samples without opening their images."""
        # From one batch earlier: that one may be the short last one, so the end of the pass may
        # come before ``first * batch_size``.
        skipped = first - 1
        set_epoch(read, epoch)
        lists = batch(lambda: read.samples_from(skipped * self.batch_size), self.batch_size)
        with open_reader(lists) as opened:
            leave_out(opened, first, first=skipped)
            yield from opened

    def close(self) -> None:
        """End the pass that was begun to see the first item, if no training has read it."""
        if isinstance(self.read, _BegunReader):
            self.read.close()


class _BegunReader:
    """A reader whose first pass was begun; its first item comes again with that pass."""

    def __init__(self, name: str, read: ReaderLike) -> None:
        self._read = read
        rest = iter(read())
        try:
            self.first = next(rest)
        except StopIteration:
            raise ConfigError(
                f"expected samples or batches from {name}, it yields nothing; look at its data"
            ) from None
        self._rest: Iterator[Any] | None = rest

    def __call__(self) -> Iterator[Any]:
        rest, self._rest = self._rest, None
        return iter(self._read()) if rest is None else _again(self.first, rest)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next pass; a reader that counts passes begins it again."""
        if hasattr(self._read, "set_epoch"):
            self.close()
            set_epoch(self._read, epoch)

    def close(self) -> None:
        """End the begun pass."""
        rest, self._rest = self._rest, None
        if isinstance(rest, GeneratorType):
            rest.close()


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    with open_reader(lambda: rest) as items:
        yield first
        yield from items


def custom_reader(
    name: str, given: AssignedReader, form: SampleForm, batch_size: int
) -> CustomReader:
    """Find out what a reader yields.

    Args:
        name: Name of the attribute that the reader was assigned to.
        given: The reader.
        form: The form of its samples.
        batch_size: Samples per batch, as set.

    Raises:
        ConfigError: The reader yields nothing, or its first item is neither a sample nor a batch,
            or could be both, or is a larger batch than set.
    """
    kind = given.kind or _declared(given.read)
    if kind is not None:
        return CustomReader(name, given.read, kind, batch_size, form)
    begun = _BegunReader(name, given.read)
    try:
        kind = _kind_of(name, begun.first, form)
        if kind is ReaderKind.BATCHES:
            _check_size(name, len(begun.first), batch_size)
    except ConfigError:
        begun.close()
        raise
    return CustomReader(name, begun, kind, batch_size, form)


def _declared(read: ReaderLike) -> ReaderKind | None:
    """Return the kind that trainfeed's own readers declare; plain functions declare none."""
    is_batched = getattr(read, "batched", None)
    if is_batched is None:
        return None
    return ReaderKind.BATCHES if is_batched else ReaderKind.SAMPLES


def _kind_of(name: str, item: Any, form: SampleForm) -> ReaderKind:
    kinds = form.kinds_of(item)
    if len(kinds) == 1:
        return kinds[0]
    wanted = "(image, label)" if form.has_labels else "images"
    reason = "could be a sample and a batch" if kinds else "is neither"
    raise ConfigError(
        f"expected {name} to yield {wanted} for an image_shape of {form.image_shape}, or lists of"
        f" these, got {described(item)}, which {reason}; correct the reader or set_image_shape(),"
        f" or say which by set_{name}(sample_reader=…) or set_{name}(batch_reader=…)"
    )


def _check_size(name: str, num_samples: int, batch_size: int) -> None:
    """Compare the first batch with the setting, from which the learning rate is computed."""
    setter = "set_train_batch_size" if name == "train_reader" else "set_test_batch_size"
    if num_samples > batch_size:
        raise ConfigError(
            f"expected batches of at most {batch_size} samples from {name}, got {num_samples}; call"
            f" {setter}({num_samples})"
        )
    if num_samples < batch_size:
        logger.warning(
            "%s begins with a batch of %d samples; learning rate and warm-up are those of %d:"
            " call %s(%d) if the batches are to be smaller",
            name,
            num_samples,
            batch_size,
            setter,
            num_samples,
        )


# --- The readers of a training, a test or a prediction: those that were assigned, or the defaults

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
