"""The cost of the parts of preprocessing: microseconds a record, the best of several tries.

``python -m benchmarks.pipeline.parts FOLDER/x1`` reads one recorded file into memory and runs each
part alone, so that a loaded machine disturbs it little.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from trainfeed.files.stores import Location
from trainfeed.functions.lookups import lookup_digests
from trainfeed.pipeline.functions.account import SampleLimits, Tally
from trainfeed.pipeline.functions.modes import BatchMode, RecordMode, iter_landed
from trainfeed.pipeline.functions.user_function import UserFunction, source_batch
from trainfeed.pipeline.sorting.spill_files import TrailerWriter
from trainfeed.preprocessing import json_columns
from trainfeed.samples import Schema, TypedCodec
from trainfeed.samples.arrow import ColumnEncoder
from trainfeed.sources import LandingFile
from trainfeed.specification import DatasetSpec, load_spec

_TRIES: Final = 7
_SOURCE: Final = "kafka:flights/0"
_LIMITS: Final = SampleLimits(512 << 20, 512 << 20, 32 << 20)
_NUMBERS: Final = (
    *("year", "month", "day", "dep_time", "sched_dep_time"),
    *("sched_arr_time", "arr_delay", "flight", "distance"),
)
_TEXTS: Final = ("carrier", "origin", "dest", "time_hour", "tailnum")


class _Nowhere:
    def record(self, offset: int) -> None:
        """Take the place of a worker's place."""


def _show(name: str, num_records: int, work: Callable[[], object]) -> None:
    best = float("inf")
    for _ in range(_TRIES):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    print(f"{name:40}{best / num_records * 1e6:6.2f}", flush=True)


def main(place: Path) -> None:
    """Measure."""
    pa.set_cpu_count(1)
    path = min((place / "recorded" / "flights" / "p=0").glob("*.arrow"))
    location = Location.parse(str(path))
    with LandingFile.open(location) as landing:
        batches = list(landing.iter_batches())
        count = sum(batch.num_rows for batch in batches)
        _show("read a landing file", count, lambda: list(landing.iter_batches()))
        _show("read and verify it", count, lambda: list(landing.iter_batches(verifies=True)))
    _batch_mode(load_spec(place / "datasets" / "batch" / "flights"), batches, count)
    _record_mode(load_spec(place / "datasets" / "record" / "flights"), batches, count)


def _batch_mode(spec: DatasetSpec, batches: list[pa.RecordBatch], count: int) -> None:
    function, schema = UserFunction(spec, lookup_digests(spec)), _schema(spec)
    fields = dict.fromkeys(_NUMBERS, pa.int64()) | dict.fromkeys(_TEXTS, pa.utf8())
    inputs = [source_batch(batch, _SOURCE) for batch in batches]
    judged = [function.call_batch(batch) for batch in inputs]
    mode = BatchMode(function, schema, None, _tally(), limits=_LIMITS)
    encoder = ColumnEncoder(schema)
    blocks = [block for batch in batches for block in mode.blocks(batch, _SOURCE)]
    table = pa.table({"record": pa.concat_arrays([b.records.cast(pa.binary()) for b in blocks])})
    _show("JSON to columns", count, lambda: [json_columns(b["value"], fields) for b in inputs])
    _show("the function, JSON included", count, lambda: [function.call_batch(b) for b in inputs])
    _show("encoding", count, lambda: [encoder.encode(j.samples(schema.names)) for j in judged])
    _show("writing a spill", count, lambda: _spill(table))


def _spill(table: pa.Table) -> None:
    writer = TrailerWriter(io.BytesIO(), table.schema, batch_bytes=1 << 20)
    writer.write(table)
    writer.close({})


def _record_mode(spec: DatasetSpec, batches: list[pa.RecordBatch], count: int) -> None:
    function, schema = UserFunction(spec, lookup_digests(spec)), _schema(spec)
    records = [record for batch in batches for record in iter_landed(batch, _SOURCE)]
    samples = [s for record in records if isinstance(s := function.call(record), list)]
    codec = TypedCodec(schema)
    mode = RecordMode(
        function,
        schema,
        None,
        _tally(),
        told=_Nowhere(),
        limits=_LIMITS,
    )
    _show("json.loads", count, lambda: [json.loads(r.value or b"") for r in records])
    _show("Record.json", count, lambda: [r.json() for r in records])
    _show("the function", count, lambda: [function.call(r) for r in records])
    _show("encoding, one by one", count, lambda: [codec.encode(s[0]) for s in samples])
    _show("all of record mode", count, lambda: [list(mode.blocks(b, _SOURCE)) for b in batches])


def _tally() -> Tally:
    return Tally([_SOURCE], 1 << 30, 32 << 20)


def _schema(spec: DatasetSpec) -> Schema:
    fields: list[dict[str, Any]] = [
        {"name": name, "dtype": field.dtype, "shape": list(field.shape)}
        for name, field in spec.fields.items()
    ]
    return Schema.from_json(fields)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
