"""Values, keys and lines with fields, which a function gets; what is no record is quarantined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.errors import FormatError
from trainfeed.pipeline.functions.account import TurnedDownRecords
from trainfeed.pipeline.functions.modes import Mode
from trainfeed.pipeline.inputs.line_fields import CSV, HEADER, line_reader
from trainfeed.pipeline.inputs.schemas import framed_values, payloads_of, writer_schemas
from trainfeed.pipeline.landed_ranges import record_bytes
from trainfeed.pipeline.sorting.collector import SampleBlock
from trainfeed.pipeline.stage import Stage
from trainfeed.preprocessing import Reject
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.value_formats import FramedValues, LineReader, OpenQuoteError, Refusal
from trainfeed.versions.order import split_member

# The key as one field, if its schema is of a single value; else the begin of the names of its
# fields.
_KEY: Final = "_key"
_PARTS: Final = ("value", "key")


class Payloads:
    """Reads the values and keys of one input as fields.

    Args:
        value: Reads the values; None for values without fields.
        key: Reads the keys, likewise.
        has_header: Whether the record at offset 0 is a header, and no record of the data set.

    Attributes:
        has_header: As given.
    """

    def __init__(
        self,
        value: FramedValues | LineReader | None,
        key: FramedValues | None,
        *,
        has_header: bool = False,
    ) -> None:
        self.has_header = has_header
        readers: dict[str, FramedValues | LineReader | None] = {"value": value, "key": key}
        self._readers = {part: each for part, each in readers.items() if each is not None}

    def read(self, landed: pa.RecordBatch) -> tuple[pa.StructArray, list[Refusal]]:
        """Return the fields of landed records, and the refused ones by ascending row.

        The fields of a record without a value are null, if values have a schema.
        """
        names: list[str] = []
        columns: list[pa.Array] = []
        refused: dict[int, Refusal] = {}
        for part, reader in self._readers.items():
            decoded = reader.read(landed.column(part))
            for each in decoded.refused:
                refused.setdefault(each.row, each if part == "value" else _of_key(each))
            column = decoded.column
            if part == "key" and not pa.types.is_struct(column.type):
                names.append(_KEY)
                columns.append(column)
                continue
            prefix = "" if part == "value" else f"{_KEY}."
            names += [f"{prefix}{field.name}" for field in column.type]
            columns += column.flatten()
        mask = landed.column("value").is_null() if "value" in self._readers else None
        if mask is not None and not landed.column("value").null_count:
            mask = None
        fields = [pa.field(name, each.type) for name, each in zip(names, columns, strict=True)]
        found = pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
        return found, [refused[row] for row in sorted(refused)]


def _of_key(refusal: Refusal) -> Refusal:
    return Refusal(refusal.row, f"key.{refusal.reason}", f"key: {refusal.message}")


class InOrder:
    """Passes records on that a batch turned down, those of the schema and of the function in order.

    The quarantine of a task is sorted by position, however its records were divided into batches.

    Args:
        turned: Gets the records.
    """

    def __init__(self, turned: TurnedDownRecords) -> None:
        self._turned = turned
        self._rejected: list[tuple[int, bytes | None, Reject, int | None]] = []

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:
        """Pass filtered records on."""
        self._turned.filter(source, reason, offsets, num_bytes)

    def reject(
        self,
        source: str,  # noqa: ARG002 - ``pass_on`` names it
        offset: int,
        value: bytes | None,
        reject: Reject,
        num_bytes: int | None = None,
    ) -> None:
        """Keep a broken record until ``pass_on``, which names its source."""
        self._rejected.append((offset, value, reject, num_bytes))

    def pass_on(self, source: str) -> None:
        """Pass the broken records on by ascending offset."""
        rejected, self._rejected = sorted(self._rejected, key=lambda each: each[0]), []
        for offset, value, reject, num_bytes in rejected:
            self._turned.reject(source, offset, value, reject, num_bytes)


class WithFields:
    """Gives a mode the fields of records, and quarantines those whose value or key has none.

    Args:
        mode: The mode, which turns records down to ``turned``.
        turned: Gets the records that yield no sample.
        payloads: Source → what reads its values and keys; other sources stay as they are.
    """

    def __init__(self, mode: Mode, turned: InOrder, payloads: Mapping[str, Payloads]) -> None:
        self._mode = mode
        self._turned = turned
        self._payloads = payloads

    @property
    def rows_at_once(self) -> int:
        """That of the mode."""
        return self._mode.rows_at_once

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield the blocks of the mode."""
        payloads = self._payloads.get(source)
        if payloads is not None and payloads.has_header:
            landed = self._without_header(landed, source)
        if payloads is not None and landed.num_rows:
            landed = self._with_fields(landed, source, payloads)
        if landed.num_rows:
            yield from self._mode.blocks(landed, source)
        self._turned.pass_on(source)

    def _without_header(self, landed: pa.RecordBatch, source: str) -> pa.RecordBatch:
        """Return the records without the first line of a file."""
        if not landed.num_rows or landed.column("offset")[0].as_py():
            return landed
        num_bytes = int(record_bytes(landed.slice(0, 1))[0])
        self._turned.filter(source, HEADER, [0], num_bytes)
        return landed.slice(1)

    def _with_fields(
        self, landed: pa.RecordBatch, source: str, payloads: Payloads
    ) -> pa.RecordBatch:
        """Return the records that have fields, with them."""
        try:
            fields, refused = payloads.read(landed)
        except OpenQuoteError as error:
            raise FormatError(
                "expected lines of CSV each of which is a record, got one with an odd number of"
                " quotes, which may go on in the next line; nothing was published; write line"
                " breaks within cells in another way, or, if quotes are characters like any other"
                " here, set source.logs.csv: {quote: null}",
                path=source,
                offset_bytes=landed.column("offset")[error.row].as_py(),
            ) from error
        found = landed.append_column(FIELDS, fields)
        if not refused:
            return found
        rows = [each.row for each in refused]
        picked = landed.take(pa.array(rows))
        offsets, values = (picked.column(name).to_pylist() for name in ("offset", "value"))
        for each, offset, value in zip(refused, offsets, values, strict=True):
            self._turned.reject(source, offset, value, Reject(each.reason, each.message))
        good = np.ones(landed.num_rows, np.bool_)
        good[rows] = False
        return found.filter(pa.array(good))


def payloads_of_ranges(stage: Stage, ranges: Sequence[int]) -> dict[str, Payloads]:
    """Return source → what reads values and keys, for the sources of ranges that have fields.

    Raises:
        CodeChangedError: A file with a reader's schema is not the one of the plan.
        NotFoundError: ``ingest`` has not kept a writer's schema, or the plan's headers are gone.
        FormatError: The plan's headers are damaged.
    """
    sources = {stage.plan.ranges[index].source for index in ranges}
    inputs = {source: stage.plan.inputs[source] for source in sorted(sources)}
    found = {source: each for source in inputs if (each := _of_lines(stage, source)) is not None}
    parts = {
        source: payloads_of(stage.of_source(source).spec, each) for source, each in inputs.items()
    }
    if not any(parts.values()):
        return found
    writers = writer_schemas(stage, ranges)

    def reader(source: str, part: str) -> FramedValues | None:
        known: dict[str, Any] = parts[source]
        own = stage.of_source(source)
        return framed_values(own, inputs[source], part, writers) if part in known else None

    framed = {
        source: Payloads(*(reader(source, part) for part in _PARTS))
        for source, known in parts.items()
        if known
    }
    return found | framed


def _of_lines(stage: Stage, source: str) -> Payloads | None:
    """Return what reads the lines of a source; None where they have no fields."""
    own, (_, alone) = stage.of_source(source), split_member(source)
    logs = own.spec.source.logs
    lines = None if logs is None else line_reader(own, alone, own.plan.inputs[alone])
    if logs is None or lines is None:
        return None
    return Payloads(lines, None, has_header=logs.format == CSV)
