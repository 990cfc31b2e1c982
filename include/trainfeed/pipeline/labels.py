"""Labels of uploads in a build: one work file, the join with samples, and its account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.core import faults
from trainfeed.core.canonical_json import JsonFields
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.files.stores import Location
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer, TrailerWriter
from trainfeed.pipeline.stage import Stage
from trainfeed.samples import TypedCodec
from trainfeed.samples.arrow import ColumnEncoder
from trainfeed.specification import DatasetSpec
from trainfeed.uploads import (
    HASH,
    KEY,
    AppliedUpload,
    LabelFields,
    Labels,
    hash_of_key,
    label_column,
    labels_of,
)

# --- The account of a join: samples with and without a label, and labels with and without a sample


@dataclass(frozen=True)
class JoinCounts(JsonFields):
    """Samples that met the labels of their interval.

    Attributes:
        matched: Number of samples whose key an upload has.
        unmatched: Number of other samples; an inner join leaves them out.
    """

    matched: int = 0
    unmatched: int = 0

    def __add__(self, other: JoinCounts) -> JoinCounts:
        return JoinCounts(self.matched + other.matched, self.unmatched + other.unmatched)

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> JoinCounts:
        """Read the JSON of ``to_json``.

        Raises:
            TypeError: A value is no whole number, or a name is unknown.
        """
        if not all(type(count) is int for count in value.values()):
            raise TypeError(f"expected counts of joined samples, got {value!r}")
        return cls(**value)


@dataclass(frozen=True)
class JoinAccount:
    """The join of all samples of an interval with its labels.

    Attributes:
        samples: The samples.
        rows: Number of rows in the uploads of the interval.
        repeated: Number of rows that stand again in one upload, with equal labels.
        superseded: Number of rows whose key stands in a newer upload.
        used: Number of labels that a sample got.
        unused: Number of labels whose key no sample has.
    """

    samples: JoinCounts
    rows: int
    repeated: int
    superseded: int
    used: int
    unused: int

    def imbalances(self, valid_samples: int, join: str) -> list[str]:
        """Return one line per sum that does not hold.

        Args:
            valid_samples: Number of samples of the version.
            join: ``inner`` or ``left``.
        """
        kept = self.samples.matched + (self.samples.unmatched if join == "left" else 0)
        rows = self.repeated + self.superseded + self.used + self.unused
        lines = []
        if kept != valid_samples:
            lines.append(f"the join kept {kept} samples, the version has {valid_samples}")
        if rows != self.rows:
            lines.append(f"the uploads have {self.rows} rows, {rows} are accounted for")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the account as the manifest has it, without the uploads."""
        labels = {
            name: getattr(self, name)
            for name in ("rows", "repeated", "superseded", "used", "unused")
        }
        return {"samples": self.samples.to_json(), "labels": labels}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JoinAccount:
        """Read the JSON of ``to_json``.

        Raises:
            KeyError: A key is missing.
            TypeError: A count is no whole number, or a name is unknown.
        """
        labels = value["labels"]
        if not all(type(count) is int for count in labels.values()):
            raise TypeError(f"expected counts of labels, got {labels!r}")
        return cls(JoinCounts.from_json(value["samples"]), **labels)


# --- Joins samples with labels by key: a pure function of each sample and the labels

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


# --- Work files of labels: the labels of the interval, and which of them a task used

_DATA: Final = "data"
_SCHEMA: Final = pa.schema({_DATA: pa.binary()})
_PIECE_BYTES: Final = 4 << 20


def settle_labels(stage: Stage) -> None:
    """Make the work file with the labels of the interval, unless it is there or none is needed.

    Raises:
        ChecksumError: The kept bytes of an upload are not those of the plan.
        FormatError: An upload does not match the specification.
        MemoryLimitError: The labels do not fit the memory.
    """
    if stage.spec.uploads is None or stage.labels_file.exists():
        return
    uploads = [AppliedUpload(**upload.model_dump()) for upload in stage.plan.uploads]
    labels = labels_of(stage.spec, stage.folder, uploads, stage.plan.rules)
    stage.labels_file.write_atomic(lambda file: _write_labels(file, labels))
    faults.point("labels.after_rename")


def load_labels(stage: Stage) -> LabelJoin | None:
    """Return the join of a stage, with the labels in memory; None for a set without uploads."""
    if stage.spec.uploads is None:
        return None
    data, _ = _read(stage.labels_file)
    return LabelJoin(stage.spec, pa.ipc.open_stream(data).read_all().combine_chunks())


def settle_used(stage: Stage, unit: int, parts: Sequence[NDArray[np.bool_]]) -> None:
    """Write which labels a task of ``preprocess`` used.

    Args:
        stage: The stage.
        unit: Number of the task.
        parts: Of each worker a mask of the labels, shape (number of labels,).
    """
    if stage.spec.uploads is None:
        return
    used = np.logical_or.reduce(list(parts))
    data = np.packbits(used).tobytes()
    place = stage.used_labels_file(unit)
    place.write_atomic(lambda file: _write(file, data, {"labels": len(used)}))


def count_used(stage: Stage, samples: JoinCounts) -> JoinAccount | None:
    """Return the account of the join from the work files of all tasks; None without uploads.

    Args:
        stage: The stage.
        samples: The samples of all tasks.

    Raises:
        FormatError: A work file is damaged, or is about other labels.
    """
    if stage.spec.uploads is None:
        return None
    data, trailer = _read(stage.labels_file)
    num_labels = pa.ipc.open_stream(data).read_all().num_rows
    used = np.zeros(num_labels, dtype=bool)
    for unit in range(len(stage.plan.preprocess)):
        used |= _used(stage.used_labels_file(unit), num_labels)
    num_used = int(used.sum())
    return JoinAccount(
        samples,
        rows=trailer["rows"],
        repeated=trailer["repeated"],
        superseded=trailer["superseded"],
        used=num_used,
        unused=num_labels - num_used,
    )


def _used(location: Location, num_labels: int) -> NDArray[np.bool_]:
    data, trailer = _read(location)
    if trailer["labels"] != num_labels:
        raise FormatError(
            f"expected bits of {num_labels} labels, got {trailer['labels']}; nothing was published;"
            " build the interval again (in Airflow: clear the run from preprocess on)",
            path=location.uri,
        )
    return np.unpackbits(np.frombuffer(data, np.uint8), count=num_labels).astype(bool)


def _write_labels(file: BinaryIO, labels: Labels) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, labels.table.schema) as writer:
        writer.write_table(labels.table)
    counts = {
        "rows": labels.rows,
        "repeated": labels.repeated,
        "superseded": labels.superseded,
    }
    _write(file, sink.getvalue().to_pybytes(), counts)
    faults.point("labels.before_rename")


def _write(file: BinaryIO, data: bytes, trailer: Mapping[str, object]) -> None:
    pieces = [data[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES)]
    writer = TrailerWriter(file, _SCHEMA)
    writer.write(pa.table({_DATA: pa.array(pieces, pa.binary())}))
    writer.close(trailer)


def _read(location: Location) -> tuple[bytes, dict[str, Any]]:
    with closing(ArrowWithTrailer(location)) as file:
        pieces = [piece for table in file.iter_tables() for piece in table[_DATA].to_pylist()]
        return b"".join(pieces), file.trailer
