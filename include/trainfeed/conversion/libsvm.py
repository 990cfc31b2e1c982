"""Lines of libSVM and libFM ↔ sparse samples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.foreign_input import MAX_LINE_BYTES, iter_lines, open_input
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.files import FilePath
from trainfeed.samples import Field, Schema

_INTEGER: Final = re.compile(rb"[+-]?[0-9]{1,19}")
# No two parts of the pattern take the same digits: a long wrong text is refused in linear time.
_NUMBER: Final = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_INDEX: Final = re.compile(rb"[0-9]{1,18}")


@dataclass(frozen=True)
class SparseOptions:
    """How the lines of a file are read.

    Attributes:
        index_base: Number of the first feature in the file, 0 or 1. Indices of samples always
            start at 0.
        num_features: Number of features; becomes ``shape`` of every sample.
        label_dtype: ``int64`` for classes, ``float32`` or ``float64`` for regression.
        value_dtype: ``float32`` or ``float64``.
        rounds: Whether values that ``value_dtype`` cannot represent are rounded instead of refused.

    Raises:
        ConfigError: An attribute has another value.
    """

    index_base: int
    num_features: int
    label_dtype: str = "int64"
    value_dtype: str = "float32"
    rounds: bool = False

    def __post_init__(self) -> None:
        if self.index_base not in {0, 1}:
            raise ConfigError(f"expected index_base as 0 or 1, got {self.index_base!r}")
        if self.num_features < 1:
            raise ConfigError(f"expected num_features from 1, got {self.num_features!r}")
        if self.label_dtype not in {"int64", "float32", "float64"}:
            raise ConfigError(f"expected label_dtype int64 or a float, got {self.label_dtype!r}")
        if self.value_dtype not in {"float32", "float64"}:
            raise ConfigError(f"expected value_dtype as a float, got {self.value_dtype!r}")

    @property
    def schema(self) -> Schema:
        """The schema of the samples: ``label``, ``indices``, ``values`` and ``shape``."""
        return Schema(
            (
                Field("label", self.label_dtype),
                Field("indices", "int64", (None,)),
                Field("values", self.value_dtype, (None,)),
                Field("shape", "int64", (1,)),
            )
        )


def parse_sparse(data: bytes, options: SparseOptions) -> dict[str, NDArray[Any]]:
    """Return the sample of a line.

    Raises:
        SampleShapeError: The line is invalid; the message says why.
    """
    label, *pairs = data.partition(b"#")[0].split() or [b""]
    target = np.array(_label(label, options), options.label_dtype)
    indices = np.empty(len(pairs), np.int64)
    values = np.empty(len(pairs), options.value_dtype)
    for i, pair in enumerate(pairs):
        index, colon, value = pair.partition(b":")
        if not colon or not _INDEX.fullmatch(index):
            raise SampleShapeError(f"expected index:value, got {_shown(pair)}")
        indices[i] = int(index) - options.index_base
        values[i] = _number(value, values.dtype, rounds=options.rounds)
    _check_indices(indices, options)
    return {
        "label": target,
        "indices": indices,
        "values": values,
        "shape": np.array([options.num_features], np.int64),
    }


def format_sparse(sample: Mapping[str, Any], options: SparseOptions) -> bytes:
    """Return the line of a sample, with the end of line; parsing it gives an equal sample.

    Raises:
        SampleShapeError: The numbers of indices and values differ, or the shape is another one.
    """
    indices, values = np.asarray(sample["indices"]), np.asarray(sample["values"])
    shape = np.asarray(sample["shape"]).reshape(-1).tolist()
    if indices.shape != values.shape or indices.ndim != 1 or shape != [options.num_features]:
        raise SampleShapeError(
            f"expected as many indices as values and the shape [{options.num_features}], got"
            f" {indices.shape}, {values.shape} and {shape}"
        )
    _check_indices(indices, options)
    if not np.isfinite(values).all():
        raise SampleShapeError("expected finite values, got NaN or infinity")
    # numpy writes the shortest digits that give the same number again.
    texts = values.astype(np.str_).tolist()
    numbers = (indices + options.index_base).tolist()
    pairs = [f"{index}:{text}" for index, text in zip(numbers, texts, strict=True)]
    return (" ".join([str(np.asarray(sample["label"]).astype(np.str_)), *pairs]) + "\n").encode()


def read_sparse(path: FilePath, options: SparseOptions) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the samples of a file; blank lines and comments are skipped.

    Raises:
        FormatError: A line is invalid; has the line and the reason.
    """
    for number, offset_bytes, data in _iter_data(path):
        try:
            yield parse_sparse(data, options)
        except SampleShapeError as error:
            raise FormatError(
                f"line {number}: {error}", path=str(path), offset_bytes=offset_bytes
            ) from error


def count_features(paths: Iterable[FilePath], *, index_base: int) -> int:
    """Return the smallest ``num_features`` for all lines of files; reads the files.

    Raises:
        FormatError: A line is invalid.
    """
    highest = index_base
    for path in paths:
        for number, offset_bytes, data in _iter_data(path):
            for pair in data.partition(b"#")[0].split()[1:]:
                index = pair.partition(b":")[0]
                if not _INDEX.fullmatch(index):
                    raise FormatError(
                        f"line {number}: expected index:value, got {_shown(pair)}",
                        path=str(path),
                        offset_bytes=offset_bytes,
                    )
                highest = max(highest, int(index))
    return highest - index_base + 1


def write_sparse(
    file: BinaryIO, samples: Iterable[Mapping[str, Any]], options: SparseOptions
) -> int:
    """Write samples and return their number.

    Raises:
        SampleShapeError: See ``format_sparse``.
    """
    count = 0
    for sample in samples:
        file.write(format_sparse(sample, options))
        count += 1
    return count


def _iter_data(path: FilePath) -> Iterator[tuple[int, int, bytes]]:
    with open_input(path) as file:
        for line in iter_lines(file):
            if line.data is None:
                raise FormatError(
                    f"line {line.number}: expected at most {MAX_LINE_BYTES} bytes",
                    path=str(path),
                    offset_bytes=line.offset_bytes,
                )
            if line.data.partition(b"#")[0].strip():
                yield line.number, line.offset_bytes, line.data


def _check_indices(indices: NDArray[Any], options: SparseOptions) -> None:
    if not len(indices):
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= options.num_features:
        wrong = low if low < 0 else high
        raise SampleShapeError(
            f"expected indices from {options.index_base} to"
            f" {options.num_features - 1 + options.index_base}, got {wrong + options.index_base};"
            " change index_base (--index-base) or num_features (--num-features)"
        )
    if len(np.unique(indices)) < len(indices):
        raise SampleShapeError("an index stands twice in one line")


def _label(text: bytes, options: SparseOptions) -> Any:
    if options.label_dtype != "int64":
        return _number(text, np.dtype(options.label_dtype), rounds=options.rounds)
    if not _INTEGER.fullmatch(text) or not -(1 << 63) <= int(text) < 1 << 63:
        raise SampleShapeError(
            f"expected an integer label, got {_shown(text)}; for labels of regression"
            " set label_dtype: --label-dtype float64"
        )
    return int(text)


def _number(text: bytes, dtype: np.dtype[Any], *, rounds: bool) -> Any:
    if not _NUMBER.fullmatch(text):
        raise SampleShapeError(f"expected a number, got {_shown(text)}")
    exact = float(text)
    with np.errstate(over="ignore"):
        value = dtype.type(exact)
    if not math.isfinite(value):
        raise SampleShapeError(f"{_shown(text)} is beyond {dtype}")
    # The shortest digits of the float32 must denote the same number as the text.
    if dtype == np.float32 and not rounds and float(str(value)) != exact:
        raise SampleShapeError(
            f"float32 cannot hold {_shown(text)}; set value_dtype (--value-dtype float64), or"
            " rounds (--round-values), which takes the nearest number"
        )
    return value


def _shown(text: bytes) -> str:
    return repr(text[:60].decode("utf-8", "backslashreplace"))
