"""Work files of labels: the labels of the interval, and which of them a task used.

Both are files of ``TrailerWriter``, whose every byte is verified. Their rows are pieces of one
sequence of bytes: an Arrow stream, whose columns may have any type of a field, or packed bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed import faults
from trainfeed.errors import FormatError
from trainfeed.pipeline.labels._join_account import JoinAccount, JoinCounts
from trainfeed.pipeline.labels._label_join import LabelJoin
from trainfeed.pipeline.sorting import ArrowWithTrailer, TrailerWriter
from trainfeed.pipeline.stage import Stage
from trainfeed.storage import Location
from trainfeed.uploads import AppliedUpload, Labels, labels_of

__all__ = ["count_used", "load_labels", "settle_labels", "settle_used"]

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
