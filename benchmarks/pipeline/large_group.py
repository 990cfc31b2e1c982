"""Memory of a whole build of a Parquet file with one row group of 2 GB.

``python -m benchmarks.pipeline.large_group FOLDER [--bounds 64MiB,512MiB] [--rows 250000]`` makes
a file of one row group, whose texts of 8,000 bytes the function reads, and one of 1,000 such rows.
It builds a version of each, and prints by how much the processes of the large one grow beyond those
of the small one. That has to stay below the bound and 64 MiB.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline.run import ROOT, Watch
from trainfeed.core.config import Environment
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.versions import init_root

_ALLOWED: Final = 64 << 20
_SMALL_ROWS: Final = 1_000
_TEXT_BYTES: Final = 8_000
_UNITS: Final = {"MiB": 1 << 20, "GiB": 1 << 30}
_SPEC: Final = """
name: wide
schedule: "@daily"
start: 2024-03-01
source:
  logs: {{path: "/{place}/{{start:%Y-%m-%d}}", format: parquet, bytes_per_record: 8KiB}}
preprocess: {{function: "preprocess:make_samples", input: batch}}
schema:
  number: {{dtype: int64}}
  first: {{dtype: str}}
output: {{shards: 1}}
resources: {{memory_bytes: {bound}}}
"""
_CODE: Final = """
import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.preprocessing import columns_of


def make_samples(batch, lookups):
    rows, found = columns_of(batch, {"number": pa.int64(), "text": pa.utf8()})
    first = pc.utf8_slice_codeunits(found["text"], 0, 16)
    return pa.RecordBatch.from_pydict(
        {"_row": pa.array(rows, pa.int32()), "number": found["number"], "first": first}
    )
"""


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bounds", default="64MiB,512MiB")
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--build", help="small or large: build once, for the measurement")
    options = parser.parse_args()
    if options.build is not None:
        _build(options.folder, options.build)
        return
    for name, rows in (("small", _SMALL_ROWS), ("large", options.rows)):
        _write(options.folder / "logs" / name / "2024-03-01" / "part-0.parquet", rows)
    is_within = True
    for bound in options.bounds.split(","):
        small, large = (_measured(options.folder, name, bound) for name in ("small", "large"))
        allowed = int(bound[:-3]) * _UNITS[bound[-3:]] + _ALLOWED
        for part in ("parent", "worker"):
            grown = large[part] - small[part]
            is_within &= grown <= allowed
            print(
                f"{bound:>7} {part}: {large[part] >> 20} MiB, with few rows {small[part] >> 20},"
                f" grown by {grown >> 20} of {allowed >> 20} MiB; {large['seconds']} s",
                flush=True,
            )
    raise SystemExit(0 if is_within else 1)


def _write(path: Path, rows: int) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(7)
    letters = draw.integers(97, 123, rows * _TEXT_BYTES, np.uint8)
    ends = np.arange(0, len(letters) + 1, _TEXT_BYTES, np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    table = pa.table(
        {
            "number": pa.array(np.arange(rows)),
            "text": pa.Array.from_buffers(pa.string(), rows, buffers),
            "fraction": pa.array(draw.random(rows)),
        }
    )
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False, compression="none")
    groups = pq.read_metadata(path).num_row_groups
    print(f"{path}: {groups} group, {path.stat().st_size / 1e9:.2f} GB", flush=True)
    (path.parent / "_SUCCESS").touch()


def _measured(folder: Path, name: str, bound: str) -> dict[str, int]:
    """Build in processes of their own; return the peaks of parent and workers, in bytes."""
    data = folder / "datasets" / "wide"
    data.mkdir(parents=True, exist_ok=True)
    (data / "dataset.yaml").write_text(_SPEC.format(place=name, bound=bound))
    (data / "preprocess.py").write_text(_CODE)
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pipeline.large_group", str(folder), "--build", name],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"},
    )
    watch = Watch(process.pid)
    while process.poll() is None:
        watch.look()
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"the build of {name} failed")
    parent = watch.peaks.pop(process.pid)
    return {
        "parent": parent,
        "worker": max(watch.peaks.values(), default=0),
        "seconds": round(time.perf_counter() - started),
    }


def _build(folder: Path, name: str) -> None:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    init_root(out / "root")
    env = Environment(
        **{each: str(out / each) for each in ("root", "landing", "work")},
        kafka={},
        datasets=folder / "datasets",
        logs={"hdfs_default": str(folder / "logs")},
    )
    spec = load_spec(env.datasets / "wide")
    report = build(spec, spec.schedule_model().interval_named("2024-03-01"), env).to_json()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"{name}: {report['samples']} samples, children {peak} MiB at most", flush=True)
    shutil.rmtree(out)


if __name__ == "__main__":
    main()
