"""Raw records → samples, by the preprocessing function of the data set in its own mode.

No step is written a second time: mode, lookups, limits and encoding are those of a build, and the
columns are decoded from the records that a shard would hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.errors import MemoryLimitError, PreprocessError
from trainfeed.pipeline.functions import SampleLimits, UserFunction, mode_of
from trainfeed.prediction._record_outcome import Outcome, OutcomeKind
from trainfeed.prediction._records import RawRecord, landed
from trainfeed.prediction._skew import Preprocessing
from trainfeed.preprocessing import Reject
from trainfeed.preprocessing.source_record import cut_message
from trainfeed.samples import Schema, TypedCodec, frame_records
from trainfeed.specification import DatasetSpec

__all__ = ["Complete", "MadeSamples", "SampleMaker"]

# Stands where a build has the topic or the file: messages name it and the number of the record.
_SOURCE: Final = "records"
_BLOCKS: Final = 16

Complete = Callable[[bytes], bytes]


@dataclass(frozen=True)
class MadeSamples:
    """The samples of some records.

    Attributes:
        columns: Field → values, as ``TypedCodec.decode_columns`` gives them.
        rows: Number of the record of every sample, ascending, shape (n,).
        turned: Number of a record → its outcome, for records without a sample.
    """

    columns: dict[str, NDArray[Any]]
    rows: NDArray[np.int64]
    turned: dict[int, Outcome]


class SampleMaker:
    """Applies the preprocessing function of a data set to records.

    Args:
        spec: The data set.
        today: Its code, lookups and reading rules.
        complete: Makes a value without labels one that the function takes; None changes nothing.

    Raises:
        ConfigError: The function or a lookup cannot be loaded.
        CodeChangedError: A lookup file changed in the meantime.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        today: Preprocessing,
        complete: Complete | None,
    ) -> None:
        self._spec = spec
        self._complete = complete
        self._function = UserFunction(
            spec,
            today.texts,
            today.lookups,
            kept="no prediction was made",
            again="predict again",
            rules=today.rules,
        )
        memory_bytes = spec.resources.task_memory_bytes
        limits = SampleLimits(memory_bytes, memory_bytes, memory_bytes // _BLOCKS)
        # Labels of uploads are what a prediction is to find out.
        fields = spec.function_fields()
        self._account = _Account()
        self._mode = mode_of(
            spec,
            fields,
            self._function,
            self._account,
            told=self._account,
            limits=limits,
            rules=today.rules,
        )
        self._codec = TypedCodec(Schema.from_json(fields))

    def make(self, records: Sequence[RawRecord]) -> MadeSamples:
        """Return the samples of records; a mistake of the function concerns its record alone.

        Raises:
            FormatError: A sample cannot be decoded.
        """
        turned: dict[int, Outcome] = {}
        given = [self._completed(index, record, turned) for index, record in enumerate(records)]
        batch = landed(given)
        if turned:
            left = [number for number in range(len(given)) if number not in turned]
            batch = batch.take(pa.array(left, pa.int64()))
        pairs = self._called(batch, turned)
        rows = np.array([row for row, _ in pairs], dtype=np.int64)
        framing = frame_records([record for _, record in pairs])
        return MadeSamples(self._codec.decode_columns(framing, len(pairs)), rows, turned)

    def _completed(self, index: int, record: RawRecord, turned: dict[int, Outcome]) -> RawRecord:
        if self._complete is None or record.value is None:
            return record
        try:
            value = _require_bytes(self._complete(record.value))
        except Reject as reject:
            turned[index] = _rejected(reject)
            return record
        except Exception as error:  # noqa: BLE001 - the code of a user, which may raise anything
            turned[index] = _failed("complete_failed", f"{type(error).__name__}: {error}")
            return record
        return replace(record, value=value)

    def _called(self, batch: pa.RecordBatch, turned: dict[int, Outcome]) -> list[tuple[int, bytes]]:
        """Return record number and encoded sample, in the order of records and ordinals."""
        try:
            pairs = list(self._pairs(batch))
        except (MemoryLimitError, PreprocessError) as error:
            # After a mistake, the records of the batch are called again, one by one.
            self._account.take()
            if batch.num_rows == 1:
                number = batch.column("offset")[0].as_py()
                turned[number] = _failed("function_failed", str(error))
                return []
            single = (batch.slice(row, 1) for row in range(batch.num_rows))
            return [pair for each in single for pair in self._called(each, turned)]
        turned.update(self._account.take())
        return pairs

    def _pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        start = 0
        while start < batch.num_rows:
            # ``rows_at_once`` changes with every batch that the function has processed.
            piece = batch.slice(start, self._mode.rows_at_once)
            for block in self._mode.blocks(piece, _SOURCE):
                yield from zip(block.offsets.tolist(), block.records.to_pylist(), strict=True)
            start += piece.num_rows


class _Account:
    """The records that the function turned down, by their numbers."""

    def __init__(self) -> None:
        self._turned: dict[int, Outcome] = {}

    def take(self) -> dict[int, Outcome]:
        """Return the records since the last call."""
        turned, self._turned = self._turned, {}
        return turned

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:  # noqa: ARG002 - a protocol
        """Take filtered records."""
        for offset in offsets:
            self._turned[offset] = Outcome(OutcomeKind.FILTERED, reason=reason)

    def reject(self, source: str, offset: int, value: bytes | None, reject: Reject) -> None:  # noqa: ARG002 - a protocol
        """Take a broken record."""
        self._turned[offset] = _rejected(reject)

    def record(self, offset: int) -> None:
        """Take the number of the record that comes next; the time limit is that of all records."""


def _require_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"train.model.complete: expected bytes, got {type(value).__name__}")
    return value


def _rejected(reject: Reject) -> Outcome:
    return Outcome(OutcomeKind.REJECTED, reason=reject.reason, message=reject.message)


def _failed(reason: str, message: str) -> Outcome:
    return Outcome(OutcomeKind.FAILED, reason=reason, message=cut_message(message))
