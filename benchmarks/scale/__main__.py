"""Measures whether a build stays within its memory, and how its cost grows.

``python -m benchmarks.scale memory FOLDER [--bound 256MiB] [--only TEXT]`` builds the inputs of
``cases.py``, each in a control group of its own, and prints a table: the memory of its processes
together, and how much more this is than the memory of a build of one record.

``python -m benchmarks.scale large FOLDER [--only TEXT]`` builds samples of 32 to 61 MB in 1 GiB,
and reads every one of them through the loader.

``python -m benchmarks.scale growth FOLDER [--records 1000000,10000000,30000000]`` builds topics of
small records, and prints processor time, memory and disk for each. With ``--per N`` a task and a
shard have N records: a million records with ``--per 100`` have the tasks and files of 10⁹.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import trainfeed
from benchmarks.scale.cases import CASES, LARGE_CASES, Case
from benchmarks.scale.family import Taken, run_family
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.files.stores import Location
from trainfeed.pipeline.local import build
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.specification import load_spec
from trainfeed.versions import init_root

ROOT: Final = Path(__file__).parents[2]
START_MS: Final = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)
BATCH_ROWS: Final = 16_384
ROWS_PER_FILE: Final = 1_000_000
MIB: Final = 1 << 20
# What ends a build that does not keep to its memory, before the machine suffers.
GROUP_BYTES: Final = 8 << 30
SPEC: Final = """
name: set
schedule: "@daily"
start: 2024-01-01
end: 2024-01-31
source:
  kafka: {{topic: set, settle: 0s}}
preprocess: {{function: "preprocess:make", input: {mode}}}
schema:
  {fields}
split: {{train: 0.9, eval: 0.1}}
output: {{{output}}}
resources: {{memory_bytes: {bound}, worker_memory_bytes: 64GiB, {resources}}}
"""
GROWTH: Final = Case(
    name="growth",
    records=0,
    fields="a: {dtype: int64}\n  b: {dtype: float32}",
    code="""
import pyarrow as pa
import pyarrow.compute as pc

def make(batch, lookups):
    numbers = pc.cast(pc.cast(batch.column("value"), pa.utf8()), pa.int64())
    floats = pc.cast(pc.bit_wise_and(numbers, 1023), pa.float32())
    return pa.RecordBatch.from_pydict({"a": numbers, "b": floats, "_row": batch.column("_row")})
""",
    mode="batch",
    resources="records_per_task: {per}, processes: 2",
    output="samples_per_shard: {per}",
)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["memory", "large", "growth", "build"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bound", default="256MiB")
    parser.add_argument("--only", default="")
    parser.add_argument("--records", default="1000000,10000000,30000000")
    parser.add_argument("--per", type=int, default=100_000)
    options = parser.parse_args()
    if options.what == "build":
        _build(options.folder)
    elif options.what == "memory":
        _memory(options.folder, options.bound, options.only)
    elif options.what == "large":
        _large(options.folder, options.only)
    else:
        _growth(options.folder, options.per, [int(n) for n in options.records.split(",")])


def _memory(folder: Path, bound: str, only: str) -> None:
    print("| input | samples | content | CPU s | peak MiB | above one record | ended |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    least = 0
    for case in CASES:
        if only not in case.name and case is not CASES[0]:
            continue
        taken, report = _run(folder, case, case.records, bound)
        peak = (taken.group_bytes or taken.rss_bytes) // MIB
        least = least or peak
        samples, content = report.get("samples", ""), report.get("content", "")
        ended = "well" if not taken.status else taken.printed.strip().splitlines()[-1][:300]
        cells = [case.name, samples, content, f"{taken.cpu_s:.1f}", peak, peak - least, ended]
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def _large(folder: Path, only: str) -> None:
    print("| input | samples read | bytes read | CPU s | peak MiB | ended |")
    print("| --- | --- | --- | --- | --- | --- |")
    for case in LARGE_CASES:
        if only not in case.name:
            continue
        read: list[int] = []
        look = partial(_look, folder, read)
        taken, _ = _run(folder, case, case.records, "1GiB", look)
        peak = (taken.group_bytes or taken.rss_bytes) // MIB
        ended = "well" if not taken.status else taken.printed.strip().splitlines()[-1][:300]
        cells = [case.name, *(read or ["", ""]), f"{taken.cpu_s:.1f}", peak, ended]
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def _look(folder: Path, read: list[int]) -> None:
    read.extend(_read(folder))


def _read(folder: Path) -> list[int]:
    """Return how many samples the loader gives, shuffled, and their bytes."""
    counts = [0, 0]
    for split in ("train", "eval"):
        found = trainfeed.open_dataset(
            "set", interval="2024-01-01", split=split, root=folder / "root"
        )
        for batch in trainfeed.DataLoader(found, batch_size=1, shuffle=True, seed=7):
            counts[0] += len(batch["v"])
            counts[1] += sum(memoryview(value).nbytes for value in batch["v"])
    return counts


def _growth(folder: Path, per: int, counts: list[int]) -> None:
    case = replace(
        GROWTH,
        resources=GROWTH.resources.format(per=per),
        output=GROWTH.output.format(per=per),
    )
    print(
        "| records | CPU s | µs a record | wall s | peak MiB | sum of RSS MiB | disk MiB | stages |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for count in counts:
        taken, report = _run(folder, case, count, "512MiB")
        cells = [
            count,
            f"{taken.cpu_s:.1f}",
            f"{taken.cpu_s / count * 1e6:.2f}",
            f"{taken.wall_s:.0f}",
            (taken.group_bytes or 0) // MIB,
            taken.rss_bytes // MIB,
            taken.disk_bytes // MIB,
            report.get("seconds", taken.printed[-300:]),
        ]
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def _run(
    folder: Path, case: Case, count: int, bound: str, look: Callable[[], object] = str
) -> tuple[Taken, dict[str, Any]]:
    shutil.rmtree(folder, ignore_errors=True)
    place = folder / "datasets" / "set"
    place.mkdir(parents=True)
    (place / "preprocess.py").write_text(case.code)
    settings = {name: getattr(case, name) for name in ("mode", "fields", "output", "resources")}
    (place / "dataset.yaml").write_text(SPEC.format(bound=bound, **settings))
    topic = Location.parse(str(folder / "recorded")) / "set"
    uuid = "5e1f1e1d-0000-4000-8000-000000000000"
    record_topic(topic, "set", uuid, {0: _batches(count)}, ROWS_PER_FILE)
    init_root(folder / "root")
    command = [sys.executable, "-m", "benchmarks.scale", "build", str(folder)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"}
    taken = run_family(command, env, folder, GROUP_BYTES)
    if not taken.status:
        look()
    shutil.rmtree(folder)
    lines = taken.printed.strip().splitlines()
    return taken, json.loads(lines[-1]) if not taken.status else {}


def _batches(count: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, BATCH_ROWS):
        offsets = np.arange(start, min(start + BATCH_ROWS, count))
        values = pa.array(offsets).cast(pa.utf8()).cast(pa.binary())
        columns = [
            pa.array(offsets),
            pa.array(START_MS + offsets // 1000),
            pa.array(np.ones(len(offsets), np.int8)),
            pa.nulls(len(offsets), pa.binary()),
            values,
            pa.array([[]] * len(offsets), LANDING_SCHEMA.field("headers").type),
        ]
        yield pa.record_batch(columns, schema=LANDING_SCHEMA)


def _build(folder: Path) -> None:
    started = time.perf_counter()
    places = {name: str(folder / name) for name in ("root", "landing", "work")}
    recorded = KafkaSettings(recorded=str(folder / "recorded"))
    env = Environment(**places, kafka={"kafka_default": recorded}, datasets=folder / "datasets")
    spec = load_spec(env.datasets / "set")
    interval = spec.schedule_model().interval_named("2024-01-01")
    report: dict[str, Any] = build(spec, interval, env).to_json()
    seconds = {name: round(number, 1) for name, number in report["seconds"].items()}
    print(
        json.dumps(
            {
                "samples": report["samples"],
                "content": report["content_digest"][:12],
                "seconds": seconds,
                "wall_s": round(time.perf_counter() - started, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
