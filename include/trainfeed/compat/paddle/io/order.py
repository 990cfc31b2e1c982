"""The order of a pass, and states from which a pass continues."""

from __future__ import annotations

import base64
import binascii
import itertools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from trainfeed.compat.paddle.io.samplers import SequenceSampler
from trainfeed.errors import ConfigError
from trainfeed.readers import open_reader

__all__ = ["NumberOrder", "NumberPass"]

_KEY_WORDS: Final = 624
_FIELDS: Final = {"epoch", "position", "numbers", "generator"}


class NumberPass:
    """The order and position of one pass.

    Args:
        batch_sampler: Iterable of lists of numbers; None for the numbers of all samples, one by
            one.
        epoch: Number of the pass.
        position: Number of batches that were handed over.
        numbers: Checksum of the numbers of these batches.
        generator: State of numpy's global generator before the first number was drawn.

    Attributes:
        epoch: As above.
        position: As above.
        generator: As above.
        is_restored: Whether the values come from a loaded state.
    """

    def __init__(
        self,
        batch_sampler: Any,
        epoch: int,
        position: int = 0,
        numbers: int = 0,
        generator: Any = None,
    ) -> None:
        self.epoch = epoch
        self.position = position
        self.generator = generator
        self._batch_sampler = batch_sampler
        self.is_restored = False
        self._checksums = {position: numbers}

    @property
    def checksum(self) -> int:
        """Checksum of the numbers of all batches that were handed over."""
        return self._checksums[self.position]

    def numbers(self, dataset: Any) -> Iterator[Any]:
        """Return the numbers to fetch, from the position on; the first is drawn in this call.

        Raises:
            ConfigError: The batch sampler yields other numbers than before the state was taken.
        """
        numbers = iter(range(len(dataset)) if self._batch_sampler is None else self._batch_sampler)
        first = self._drawn_as_before(numbers)
        all_numbers = itertools.chain(first, numbers)
        # The numbers before the position are drawn again and compared by checksum: another sampler
        # or data set would continue in another order without any error.
        checksum, start = 0, self.position
        for batch in itertools.islice(all_numbers, start):
            checksum = _checksum(batch, checksum)
        if checksum != self._checksums[start]:
            raise ConfigError(
                f"expected the batch sampler to give the numbers of the {start} batches before the"
                " state again, it gives others; use the sampler and the data set of the state, and"
                " draw random numbers from numpy's global generator when a pass begins"
            )
        return self._noted(all_numbers, start, checksum)

    def counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches, and advance the position with each."""
        with open_reader(lambda: batches):
            for batch in batches:
                # The position moves before the batch is yielded: a state taken while the consumer
                # has the batch counts it.
                self._checksums.pop(self.position, None)
                self.position += 1
                self._checksums.setdefault(self.position, 0)
                yield batch
        self.epoch, self.position, self.generator = self.epoch + 1, 0, None
        self._checksums = {0: 0}

    def _noted(self, numbers: Iterator[Any], position: int, checksum: int) -> Iterator[Any]:
        # Numbers are drawn ahead of the consumer, as far as batches are fetched ahead. Checksums
        # wait here until ``counted`` reaches their position.
        for count, batch in enumerate(numbers, position + 1):
            checksum = _checksum(batch, checksum)
            self._checksums[count] = checksum
            yield batch

    def _drawn_as_before(self, numbers: Iterator[Any]) -> list[Any]:
        """Draw the first number from the generator's state of the pass; samplers draw all then."""
        sampler = getattr(self._batch_sampler, "sampler", None)
        if self._batch_sampler is None or isinstance(sampler, SequenceSampler):
            return list(itertools.islice(numbers, 1))
        now = np.random.get_state()  # noqa: NPY002 (samplers draw from it)
        if not self.is_restored or self.generator is None:
            self.generator = now
            return list(itertools.islice(numbers, 1))
        np.random.set_state(self.generator)  # noqa: NPY002
        try:
            return list(itertools.islice(numbers, 1))
        finally:
            np.random.set_state(now)  # noqa: NPY002


class NumberOrder:
    """The passes of a loader, one after another.

    Args:
        batch_sampler: As for ``NumberPass``. If it has ``set_epoch`` and ``epoch``, passes are
            numbered by these.
    """

    def __init__(self, batch_sampler: Any) -> None:
        self._batch_sampler = batch_sampler
        self._current = NumberPass(batch_sampler, 0)
        self._is_begun = False

    def begin(self) -> NumberPass:
        """Start the pass of the loaded state, or the next pass."""
        if self._is_begun:
            before = self._current
            self._current = NumberPass(self._batch_sampler, before.epoch + (before.position > 0))
        self._is_begun = True
        epoch = getattr(self._batch_sampler, "epoch", None)
        if isinstance(epoch, int):
            self._current.epoch = epoch
        return self._current

    def state_dict(self, num_batches: int | None) -> dict[str, Any]:
        """Return the position of the last started pass, as JSON values.

        Args:
            num_batches: Number of batches of a pass; None if unknown.
        """
        current = self._current
        if num_batches is not None and current.position == num_batches:
            current = NumberPass(self._batch_sampler, current.epoch + 1)
        return {
            "epoch": current.epoch,
            "position": current.position,
            "numbers": current.checksum,
            "generator": _to_json(current.generator) if current.position else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the next pass from a state.

        Raises:
            ConfigError: ``state`` is not a state of this class.
        """
        given: object = state
        if not isinstance(given, Mapping) or given.keys() != _FIELDS:
            raise ConfigError(f"expected a state with {sorted(_FIELDS)}, got {given!r:.200}")
        counts = [state[name] for name in ("epoch", "position", "numbers")]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ConfigError(f"expected whole numbers from 0 on in a state, got {counts}")
        epoch, position, numbers = counts
        generator = _from_json(state["generator"])
        self._current = NumberPass(self._batch_sampler, epoch, position, numbers, generator)
        self._current.is_restored = True
        self._is_begun = False
        set_epoch = getattr(self._batch_sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(state["epoch"])


def _checksum(numbers: Any, before: int) -> int:
    return zlib.crc32(repr(numbers).encode(), before)


def _to_json(generator: Any) -> dict[str, Any] | None:
    if generator is None:
        return None
    _, key, position, has_gauss, gauss = generator
    words = base64.b64encode(np.asarray(key, "<u4").tobytes()).decode()
    return {"key": words, "position": position, "has_gauss": has_gauss, "gauss": gauss}


def _from_json(given: Any) -> Any:
    if given is None:
        return None
    try:
        key = np.frombuffer(base64.b64decode(given["key"], validate=True), "<u4", _KEY_WORDS)
        rest = (int(given["position"]), int(given["has_gauss"]), float(given["gauss"]))
    except (binascii.Error, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"expected a generator's state, got {given!r:.80}") from error
    return ("MT19937", key.astype(np.uint32), *rest)
