"""Readers that a user assigns to an entry, and the finding of what they yield.

The first item of a pass decides, unless the reader declares its kind or the user has named it. The
pass that was begun for this is the first pass that the training reads, so no sample is lost, also
of readers that can be read only once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from trainfeed.compat.plsc._sample_form import ImageBatch, ReaderKind, SampleForm, described
from trainfeed.decorators import batch, resumable, set_epoch
from trainfeed.errors import ConfigError
from trainfeed.readers import ReaderLike, open_reader

__all__ = ["AssignedReader", "CustomReader", "custom_reader"]

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
        is_batched = self.kind is ReaderKind.BATCHES
        reader = resumable(self.read if is_batched else batch(self.read, self.batch_size))
        reader.load_state_dict({"epoch": epoch, "position": first})
        with open_reader(reader) as lists:
            for number, rows in enumerate(lists, first):
                yield self.form.stacked(rows, f"{self.name}, batch {number}")

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
