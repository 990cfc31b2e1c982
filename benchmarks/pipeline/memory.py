"""Shows that sorting keeps within its memory: one task, one shard, bounds far below the samples.

``python -m benchmarks.pipeline.memory FOLDER [--copies 1] [--bounds 512MiB,64MiB,16MiB]`` builds
the batch form of the benchmark once per bound, and prints the memory of its processes and whether
the content is the same.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.pipeline.run import ROOT, Watch


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--bounds", default="512MiB,64MiB,16MiB")
    options = parser.parse_args()
    place = options.folder / f"x{options.copies}"
    for bound in options.bounds.split(","):
        print(bound, json.dumps(_build(place, options.folder / "memory", bound)), flush=True)


def _build(place: Path, work: Path, bound: str) -> dict[str, Any]:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(place / "datasets" / "batch" / "flights", work / "datasets/batch/flights")
    (work / "recorded").symlink_to(place / "recorded")
    path = work / "datasets/batch/flights/dataset.yaml"
    text = path.read_text().replace("samples_per_shard: 200000", "shards: 1")
    resources = f"resources: {{processes: 1, records_per_task: 100000000, memory_bytes: {bound}, "
    path.write_text(text.replace("resources: {processes: 2, ", resources))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pipeline.ours", str(work), "batch", str(work / "out")],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"},
    )
    watch = Watch(process.pid)
    while process.poll() is None:
        watch.look()
        time.sleep(0.05)
    printed, _ = process.communicate()
    report = json.loads(printed.splitlines()[-1])
    shutil.rmtree(work)
    main_bytes = watch.peaks.pop(process.pid)
    return {
        "parent_mib": main_bytes >> 20,
        "worker_mib": max(watch.peaks.values(), default=0) >> 20,
        "cpu_s": round(watch.cpu_s, 1),
        "content": report["content"][:16],
        "samples": report["samples"],
        "seconds": report["seconds"],
    }


if __name__ == "__main__":
    main()
