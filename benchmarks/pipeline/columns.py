"""Rows of Parquet, ORC and Arrow files against JSON lines of the same records.

``python -m benchmarks.pipeline.columns FOLDER/x1 [--pairs 7]`` makes the files beside those of
``prepare``, and measures in turns, in CPU seconds: reading alone, up to the columns that the
function wants; and the whole build of one version, whose content digest has to be that of all
others as far as positions are: equal samples, in another order.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import json as arrow_json
from pyarrow import orc
from pyarrow import parquet as pq

from trainfeed.core.config import Environment
from trainfeed.files.stores import Location
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.functions.user_function import source_batch
from trainfeed.pipeline.local import build
from trainfeed.preprocessing import columns_of
from trainfeed.sources import LineRange, iter_lines
from trainfeed.sources.column_files import ColumnRange, column_layout, iter_columns
from trainfeed.specification import load_spec
from trainfeed.versions import init_root

FIELDS: Final = {
    **dict.fromkeys(
        ("year", "month", "day", "dep_time", "sched_dep_time", "sched_arr_time", "arr_delay"),
        pa.int64(),
    ),
    "carrier": pa.utf8(),
    "flight": pa.int64(),
    **dict.fromkeys(("tailnum", "origin", "dest"), pa.utf8()),
    "distance": pa.int64(),
    "time_hour": pa.utf8(),
}
FORMATS: Final = ("lines", "parquet", "orc", "arrow")
_SOURCE: Final = "logs:2013/flights"
_KAFKA: Final = "kafka: {connection: kafka_default, topic: flights, settle: 0s, late: keep}"
_ROWS: Final = 50_000


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--build", choices=FORMATS, help="build one version, for the measurement")
    options = parser.parse_args()
    place = options.place / "columns"
    if options.build is not None:
        _build(options.place, options.build)
        return
    count = sum(_made(options.place, place))
    pa.set_cpu_count(1)
    for title, seconds_of in (
        ("reading alone", partial(_read_seconds, place)),
        ("whole build", partial(_build_seconds, options.place)),
    ):
        took: dict[str, list[float]] = {name: [] for name in options.formats}
        for _ in range(options.pairs):
            for name in options.formats:
                took[name].append(seconds_of(name))
        _show(title, count, took)


def _show(title: str, count: int, took: Mapping[str, list[float]]) -> None:
    lines = statistics.median(took["lines"])
    for name, seconds in took.items():
        middle = statistics.median(seconds)
        per_record = middle / count * 1e6
        print(
            f"{title:15}{name:9}{per_record:7.2f} us a record {lines / middle:6.2f} x", flush=True
        )


def _made(prepared: Path, place: Path) -> Iterator[int]:
    """Write the records of each file of lines in every format; yield their number."""
    schema = pa.schema([("id", pa.int64()), *FIELDS.items()])
    for source in sorted((prepared / "lines").glob("*.json")):
        parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        table = arrow_json.read_json(source, parse_options=parse).combine_chunks()
        yield table.num_rows
        for name in FORMATS:
            path = place / name / "flights" / "2013" / source.stem
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, name, table, source)
            (path.parent / "_SUCCESS").touch()


def _write(path: Path, name: str, table: pa.Table, source: Path) -> None:
    if name == "lines":
        path.write_bytes(source.read_bytes())
    elif name == "parquet":
        pq.write_table(table, path, row_group_size=_ROWS, compression="zstd")
    elif name == "orc":
        orc.write_table(table, path, compression="zstd", stripe_size=8 << 20)
    else:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(path, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=_ROWS)


def _read_seconds(place: Path, name: str) -> float:
    started = time.process_time()
    for path in sorted((place / name / "flights" / "2013").glob("[0-9]*")):
        for batch in _batches(Location.parse(str(path)), name):
            rows, _ = columns_of(source_batch(batch, _SOURCE), FIELDS)
            if len(rows) != batch.num_rows:
                raise SystemExit(f"{path}: {batch.num_rows - len(rows)} rows are not plain")
    return time.process_time() - started


def _batches(location: Location, name: str) -> Iterator[pa.RecordBatch]:
    size = location.stat().size_bytes
    if name == "lines":
        return iter_lines(LineRange(location, "none", size, 0, size, 0, 1 << 20))
    types: Mapping[str, pa.DataType | None] = column_layout(location, name, size).types
    wanted = {field: kind for field in FIELDS if (kind := types[field]) is not None}
    return iter_columns(ColumnRange(location, name, size, 0, size, 0, wanted))


def _build_seconds(prepared: Path, name: str) -> float:
    """Build in a process of its own, and return the CPU seconds of it and of its workers."""
    module = [sys.executable, "-m", "benchmarks.pipeline.columns", str(prepared), "--build", name]
    process = subprocess.Popen(module)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the build of {name} failed")
    return usage.ru_utime + usage.ru_stime


def _build(prepared: Path, name: str) -> None:
    columns = f", columns: [{', '.join(FIELDS)}]" if name != "lines" else ""
    logs = f'logs: {{path: "/flights/{{start:%Y}}", format: {name}{columns}}}'
    with tempfile.TemporaryDirectory(dir=prepared) as folder:
        data = Path(folder) / "datasets" / "flights"
        data.parent.mkdir()
        shutil.copytree(prepared / "datasets" / "batch" / "flights", data)
        text = (data / "dataset.yaml").read_text()
        if _KAFKA not in text:
            raise SystemExit(f"expected {_KAFKA!r} in {data / 'dataset.yaml'}")
        (data / "dataset.yaml").write_text(text.replace(_KAFKA, logs))
        init_root(Path(folder) / "root")
        env = Environment(
            **{each: f"{folder}/{each}" for each in ("root", "landing", "work")},
            kafka={},
            datasets=data.parent,
            logs={"hdfs_default": str(prepared / "columns" / name)},
        )
        spec = load_spec(data)
        interval = spec.schedule_model().interval_named("2013-01-01")
        report = build(spec, interval, env, BuildRequest()).to_json()
        print(name, report["samples"], report["filtered"], report["quarantined"], file=sys.stderr)


if __name__ == "__main__":
    main()
