"""Processor time and memory of an upload: check, labels of a build, join."""

from __future__ import annotations

import io
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainfeed.pipeline.labels import LabelJoin
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.uploads import applied_uploads, check_uploads, labels_of
from trainfeed.versions import DatasetFolder, init_root

DAY = "2026-01-01"
NUM_SAMPLES = 100_000
BATCHES = (1000, 16_384)
SPEC = """
name: clicks
schedule: "@daily"
start: 2026-01-01
source: {kafka: {topic: clicks}}
preprocess: {function: "preprocess:f"}
schema: {id: {dtype: int64}, value: {dtype: float32}, label: {dtype: int8}}
uploads: {key: [id], labels: [label], join: left, defaults: {label: -1}}
resources: {memory_bytes: 1GiB}
"""


def csv(rows: int) -> bytes:
    """Return a file of ids and labels."""
    return b"id,label\n" + b"".join(b"%d,%d\n" % (2 * n, n % 2) for n in range(rows))


def jsonl(rows: int) -> bytes:
    """Return the same as lines of JSON."""
    return b"".join(b'{"id": %d, "label": %d}\n' % (2 * n, n % 2) for n in range(rows))


def parquet(rows: int) -> bytes:
    """Return the same as a table."""
    ids = np.arange(rows)
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": 2 * ids, "label": (ids % 2).astype(np.int8)}), sink)
    return sink.getvalue()


def measure(write: Callable[[int], bytes], rows: int) -> None:
    """Print the figures of one format as a line of JSON."""
    with tempfile.TemporaryDirectory() as place:
        spec, folder = made(Path(place))
        file = folder.uploads / DAY / f"labels.{write.__name__}"
        file.parent.mkdir(parents=True)
        file.write_bytes(write(rows))
        figures: dict[str, object] = {"format": write.__name__, "rows": rows}
        figures["file_bytes"] = file.stat().st_size
        before = peak_mib()
        with_time(figures, "check_us_per_row", rows, lambda: check_uploads(spec, folder))
        figures["check_peak_mib"] = peak_mib() - before
        uploads = applied_uploads(folder, DAY)
        found = []
        with_time(
            figures,
            "labels_us_per_row",
            rows,
            lambda: found.append(labels_of(spec, folder, uploads)),
        )
        figures["table_bytes_per_label"] = round(found[0].table.nbytes / rows, 1)
        figures |= dict(joined(spec, found[0].table, rows))
    print(json.dumps(figures))


def made(place: Path) -> tuple[DatasetSpec, DatasetFolder]:
    """Return a data set with uploads, and its folder below a new root."""
    code = place / "clicks"
    code.mkdir()
    (code / "dataset.yaml").write_text(SPEC)
    (code / "preprocess.py").write_text("def f(record, lookups): ...\n")
    init_root(place / "root")
    return load_spec(code), DatasetFolder(place / "root", "clicks")


def joined(spec: DatasetSpec, table: pa.Table, rows: int) -> Iterator[tuple[str, float]]:
    """Yield the processor time of the join per sample; every second key has a label."""
    join = LabelJoin(spec, table)
    ids = np.random.default_rng(0).integers(0, 2 * rows, NUM_SAMPLES)
    batch = pa.RecordBatch.from_pydict({"id": ids, "value": ids.astype("f4")})
    for size in BATCHES:
        pieces = [batch.slice(start, size) for start in range(0, NUM_SAMPLES, size)]
        yield f"join_us_per_sample_in_batches_of_{size}", timed(join.of_batch, pieces)
    samples = [[each] for each in batch.to_pylist()]
    yield "join_us_per_sample_in_record_mode", timed(join.of_samples, samples)


def timed(call: Callable[[Any], object], arguments: list[Any]) -> float:
    """Return the processor time of calls with all arguments, in microseconds per sample."""
    started = time.process_time()
    for each in arguments:
        call(each)
    return round((time.process_time() - started) / NUM_SAMPLES * 1e6, 2)


def with_time(figures: dict[str, object], name: str, count: int, run: Callable[[], object]) -> None:
    """Write the processor time of a call, divided by ``count``, in microseconds."""
    started = time.process_time()
    run()
    figures[name] = round((time.process_time() - started) / count * 1e6, 2)


def peak_mib() -> int:
    """Return the largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
