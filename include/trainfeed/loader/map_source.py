"""Map-style Python objects as a source: ``len(dataset)`` and ``dataset[i]``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.loader.columns import Columns, Dense, Rows
from trainfeed.loader.memory import FreshMemory, Memory
from trainfeed.loader.order import Span
from trainfeed.loader.windows import Loaded
from trainfeed.samples import array_of

# Usually a chunk is one sample, so an epoch is one permutation of all samples. A larger dataset
# gets chunks of several neighbours, so that the permutation takes a few megabytes.
_MAX_CHUNKS: Final = 1 << 20
# Assumed bytes of a chunk: with the default 64 MiB of windows and 16 lanes, a window has 16 chunks.
_NOMINAL_BYTES: Final = 256 << 10
_NATURAL_SAMPLES: Final = 32


class MapDataset(Protocol):
    """Samples by number; an optional attribute ``content_digest`` identifies the content."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Any: ...


class MapSource:
    """The samples of a map-style dataset: mappings, tuples, arrays or numbers.

    Args:
        dataset: The object with the samples. Threads share it; worker processes get a pickled copy.

    Raises:
        ConfigError: The length of the dataset is not a possible one.
    """

    def __init__(self, dataset: MapDataset) -> None:
        self._dataset = dataset
        self._total = len(dataset)
        # Rounded up: -(-a // b) is the ceiling of a / b.
        per_chunk = max(1, -(-self._total // _MAX_CHUNKS))
        starts = np.arange(0, self._total, per_chunk, dtype=np.int64)
        self.num_samples: NDArray[np.int64] = np.diff(starts, append=self._total)
        self.num_bytes: NDArray[np.int64] = np.full(len(starts), _NOMINAL_BYTES)
        self._per_chunk = per_chunk
        self.natural_window_bytes = _NATURAL_SAMPLES * _NOMINAL_BYTES
        self.digest = _digest(dataset, self._total)

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory) -> Loaded:
        """Get the samples of ``rows`` one by one; see ``Source``."""
        numbers = np.concatenate(
            [np.arange(span.start, span.stop) + span.chunk * self._per_chunk for span in spans]
        )[rows]
        samples: list[Any] = []
        error: BaseException | None = None
        for number in numbers.tolist():
            try:
                samples.append(self._dataset[number])
            except Exception as raised:  # noqa: BLE001 - raised after the samples before it
                raised.add_note(f"sample {number} of {type(self._dataset).__name__}")
                error = raised
                break
        try:
            return Loaded(stack(samples, memory) if samples else {}, len(samples), error)
        except SampleShapeError:
            loaded = _stack_alike(samples)
        if loaded.error is not None:
            number = int(numbers[loaded.num_samples])
            loaded.error.add_note(f"sample {number} of {type(self._dataset).__name__}")
        return loaded

    def expect(self, _spans: Sequence[Span], /) -> None:
        """Do nothing: the dataset reads its samples in its own way."""

    def output_bytes(self, _window_bytes: int, /) -> int | None:
        """Return None: the size is not known before the samples are made."""
        return None

    def num_reread(self) -> int:
        """Return 0: the dataset does its own reading."""
        return 0

    def close(self) -> None:
        """Do nothing: the dataset belongs to the caller."""


def stack(samples: Sequence[Any], memory: Memory) -> Columns:
    """Stack samples field by field.

    Args:
        samples: At least one sample. Mappings keep their names; the values of tuples are called
            "0", "1", and so on; any other value is called "0".
        memory: Memory for the arrays.

    Raises:
        SampleShapeError: The samples differ in fields, shapes or types, or have no fields.
    """
    rows = [_fields(sample) for sample in samples]
    names = list(rows[0])
    if not names:
        raise SampleShapeError(f"expected at least one field in a sample, got {samples[0]!r}")
    for row in rows:
        if list(row) != names and set(row) != set(names):
            raise SampleShapeError(
                f"a sample has the fields {list(row)}, the first of its window has {names}"
            )
    arrays = {name: [_array(row[name]) for row in rows] for name in names}
    fixed = {name: values for name, values in arrays.items() if values[0].dtype.kind != "O"}
    # 64 bytes more per array, for its alignment.
    sizes = [len(values) * values[0].nbytes + 64 for values in fixed.values()]
    memory.reserve(sum(sizes))
    columns: Columns = {}
    for name in names:
        columns[name] = Dense(_stack(name, arrays[name], memory))
    return columns


def _stack(name: str, values: list[NDArray[Any]], memory: Memory) -> NDArray[Any]:
    first = values[0]
    # Memory that is used again must not hold references to objects: they would never be freed.
    out = (
        np.empty(len(values), object)
        if first.dtype.kind == "O"
        else memory.array((len(values), *first.shape), first.dtype)
    )
    for i, value in enumerate(values):
        if value.shape != first.shape or value.dtype != first.dtype:
            raise SampleShapeError(
                f"field {name!r}: a sample is {value.dtype}{value.shape}, the first of its window"
                f" is {first.dtype}{first.shape}"
            )
        out[i] = value[()] if value.dtype.kind == "O" else value
    return out


def _stack_alike(samples: Sequence[Any]) -> Loaded:
    """Stack the samples before the first that differs from sample 0; return them and the error."""
    num_good = 0
    while True:
        try:
            # Pairs with sample 0, because the error of the whole window does not tell which sample
            # differs.
            stack([samples[0], samples[num_good]], FreshMemory())
        except SampleShapeError as error:
            alike = samples[:num_good]
            return Loaded(stack(alike, FreshMemory()) if alike else {}, num_good, error)
        num_good += 1


def _fields(sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, Mapping):
        return sample
    if isinstance(sample, tuple | list):
        # Fields of tuples are named by their position.
        return {str(i): value for i, value in enumerate(sample)}
    return {"0": sample}


def _array(value: Any) -> NDArray[Any]:
    """Return a value as an array; bytes, texts and None become object arrays of shape ()."""
    if isinstance(value, bytes | str | None):
        boxed = np.empty((), object)
        boxed[()] = value
        return boxed
    try:
        array = array_of(value)
    except SampleShapeError:
        # It is a ValueError, too, and says already what is wrong.
        raise
    except ValueError as error:
        raise SampleShapeError(
            f"expected lists of equal lengths as a field, got {value!r:.80}; pad them, and give"
            " their lengths as a field of its own"
        ) from error
    if array.dtype.kind in "USO":
        raise SampleShapeError(f"expected numbers, bytes or text as a field, got {value!r:.80}")
    return array


def content_of(dataset: Any) -> str:
    """Return the identity of a user's object: its ``content_digest``, or the name of its type.

    Raises:
        ConfigError: ``content_digest`` is not a text.
    """
    given = getattr(dataset, "content_digest", None)
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"expected content_digest as text, got {type(given).__name__}")
    kind = type(dataset)
    return given or f"{kind.__module__}.{kind.__qualname__}"


def _digest(dataset: MapDataset, total: int) -> str:
    content = content_of(dataset)
    return hashlib.sha256(f"map/{content}/{total}".encode()).hexdigest()[:16]
