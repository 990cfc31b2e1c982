"""Joins samples with labels by key: a pure function of each sample and the labels of the interval.

The function of the user makes the key fields, the join adds the label fields. A sample of a key
that no upload has is left out (``inner``), or gets the defaults (``left``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.pipeline.labels._join_account import JoinCounts
from trainfeed.samples import TypedCodec
from trainfeed.samples.arrow import ColumnEncoder
from trainfeed.specification import DatasetSpec
from trainfeed.uploads import HASH, KEY, LabelFields, hash_of_key, label_column

__all__ = ["UNLABELLED", "LabelJoin"]

# Reason of filtered records none of whose samples has a label.
UNLABELLED: Final = "unlabelled"


class LabelJoin:
    """The labels of an interval in memory, and the account of the samples that met them.

    Args:
        spec: The data set, with the part ``uploads``.
        table: The labels, one chunk: ``Labels.table``.

    Attributes:
        used: Mask of the labels that a sample has got so far, shape (number of labels,).
    """

    def __init__(self, spec: DatasetSpec, table: pa.Table) -> None:
        if spec.uploads is None:
            raise ConfigError(f"data set {spec.name!r} takes no uploads")
        fields = LabelFields.of(spec)
        self._key_names = fields.key.names
        self._codec = TypedCodec(fields.key)
        self._columns = ColumnEncoder(fields.key)
        self._is_inner = spec.uploads.join == "inner"
        self._defaults = {name: spec.uploads.defaults.get(name) for name in fields.labels.names}
        hashes, self._keys, *labels = (_whole(column) for column in _named(table, fields))
        self._hashes: NDArray[np.uint64] = hashes.to_numpy()
        self._labels = dict(zip(fields.labels.names, labels, strict=True))
        self._matched = self._unmatched = 0
        self.used = np.zeros(len(table), dtype=bool)

    @property
    def counts(self) -> JoinCounts:
        """The samples so far."""
        return JoinCounts(self._matched, self._unmatched)

    def of_samples(self, samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return samples with their labels; an inner join leaves out those without.

        Raises:
            SampleShapeError: A sample lacks a key field, has one of another type, or has a label.
        """
        joined: list[Mapping[str, Any]] = []
        for sample in samples:
            self._require_no_label(sample)
            key = {name: sample[name] for name in self._key_names if name in sample}
            row = self._row_of(self._codec.encode(key))
            if row >= 0:
                self.used[row] = True
                self._matched += 1
                joined.append({**sample, **self._labels_at(row)})
                continue
            self._unmatched += 1
            if not self._is_inner:
                joined.append({**sample, **self._defaults})
        return joined

    def of_batch(self, samples: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.bool_] | None]:
        """Return samples with columns of labels, and the mask of rows to keep; None to keep all.

        Args:
            samples: The columns that the function returned, without labels.

        Raises:
            SampleShapeError: A key column is missing or has another type; the error does not name
                the row.
        """
        rows = self._rows_of(self._columns.encode(samples.select(self._known_keys(samples))))
        is_matched = rows >= 0
        self.used[rows[is_matched]] = True
        self._matched += int(is_matched.sum())
        self._unmatched += int((~is_matched).sum())
        indices = pa.array(rows, mask=~is_matched)
        arrays = [*samples.columns, *(self._taken(name, indices) for name in self._labels)]
        names = [*samples.schema.names, *self._labels]
        keeps_all = not self._is_inner or bool(is_matched.all())
        return pa.RecordBatch.from_arrays(arrays, names), None if keeps_all else is_matched

    def first_wrong_row(self, samples: pa.RecordBatch) -> int:
        """Return the first row whose key ``of_batch`` refuses; there must be such a row."""
        return self._columns.first_wrong_row(samples.select(self._known_keys(samples)))

    def _known_keys(self, samples: pa.RecordBatch) -> list[str]:
        return [name for name in self._key_names if name in samples.schema.names]

    def _require_no_label(self, sample: Mapping[str, Any]) -> None:
        if not self._labels.keys().isdisjoint(sample):
            given = sorted(self._labels.keys() & sample.keys())
            raise SampleShapeError(
                f"expected a sample without the labels that uploads give, got {given}; leave them"
                " out, or take them out of uploads.labels in dataset.yaml"
            )

    def _labels_at(self, row: int) -> dict[str, Any]:
        return {name: column[row].as_py() for name, column in self._labels.items()}

    def _taken(self, name: str, indices: pa.Array) -> pa.Array:
        """Return a label for every sample: null, or the default, where the index is null."""
        taken = self._labels[name].take(indices)
        default = self._defaults[name]
        if default is None or not indices.null_count:
            return taken
        return pc.if_else(indices.is_valid(), taken, pa.scalar(default, taken.type))

    def _row_of(self, key: bytes) -> int:
        """Return the row of a key, -1 if no upload has it."""
        value = np.uint64(hash_of_key(key))
        row = int(self._hashes.searchsorted(value))
        while row < len(self._hashes) and self._hashes[row] == value:
            if self._keys[row].as_py() == key:
                return row
            row += 1
        return -1

    def _rows_of(self, keys: pa.Array) -> NDArray[np.int64]:
        """Return the row of every key, int64 of shape (n,), -1 where no upload has the key."""
        values = keys.to_pylist()
        hashes = np.fromiter(map(hash_of_key, values), np.uint64, len(values))
        rows = self._hashes.searchsorted(hashes).astype(np.int64)
        rows[rows == len(self._hashes)] = -1
        within = np.flatnonzero(rows >= 0)
        rows[within[self._hashes[rows[within]] != hashes[within]]] = -1
        places = np.flatnonzero(rows >= 0)
        taken = self._keys.take(pa.array(rows[places]))
        is_equal = pc.equal(taken, keys.take(pa.array(places))).to_numpy(zero_copy_only=False)
        # Keys with one hash stand side by side; two of 2^32 labels share one by chance.
        for place in places[~is_equal.astype(bool)].tolist():
            rows[place] = self._row_of(values[place])
        return rows


def _named(table: pa.Table, fields: LabelFields) -> list[pa.ChunkedArray]:
    labels = [label_column(number) for number in range(len(fields.labels.names))]
    return [table[name] for name in (HASH, KEY, *labels)]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
