"""Runs the benchmark of the engine spark: all ways in turns; prints medians.

``python -m benchmarks.spark.run FOLDER [--copies 1,10] [--rounds 3] [--only NAME,…] [--master M]``

FOLDER is the output of ``benchmarks.pipeline.prepare`` for all these copies. Every run is a process
of its own, into a folder that is removed afterwards. Its memory is the largest resident memory of a
process of each kind, seen five times a second; with a standalone cluster, too, whose executors are
no children of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.pipeline.run import RECORDS_PER_COPY, ROOT, Watch
from benchmarks.spark.memory import LOOK_S, KindWatch, cluster_pids

_HEAD: Final = "| copies | way | whole s | build s | warm s | records/s | CPU s | MiB | load |"


def ways(master: str) -> dict[str, list[str]]:
    """Return name → command of all ways, with ``{place}`` and ``{out}`` in it."""
    python = sys.executable
    ours, local = "benchmarks.spark.ours", "benchmarks.pipeline.ours"
    peer = [str(ROOT / ".venv-spark" / "bin" / "python"), "benchmarks/spark/peer.py"]
    found = {"pyspark": [*peer, "{place}", "{out}"]}
    for form in ("batch", "record"):
        found[f"spark {form}"] = [python, "-m", ours, "{place}", form, "{out}", master]
        found[f"local {form}"] = [python, "-m", local, "{place}", form, "{out}"]
    return found


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", default="1,10")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    names = list(filter(None, options.only.split(",")))
    chosen = {k: v for k, v in ways(options.master).items() if not names or k in names}
    further = [] if options.master.startswith("local") else cluster_pids()
    runs: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for copies in map(int, options.copies.split(",")):
            for name, command in chosen.items():
                place, out = options.folder / f"x{copies}", options.folder / "spark-out"
                found = _run([part.format(place=place, out=out) for part in command], out, further)
                runs.setdefault((copies, name), []).append(found)
                print(copies, name, json.dumps(found), flush=True)
    _print_table(runs)


def _run(command: list[str], out: Path, further: Sequence[int]) -> dict[str, Any]:
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"},
    )
    watch, kinds = Watch(process.pid), KindWatch([process.pid, *further])
    while process.poll() is None:
        watch.look()
        kinds.look()
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            continue
    whole_s = time.perf_counter() - started
    printed, errors = process.communicate()
    shutil.rmtree(out, ignore_errors=True)
    if process.returncode:
        raise SystemExit(f"{command} failed: {errors.decode()[-3000:]}")
    report = json.loads(printed.decode().splitlines()[-1])
    return {
        **_times(report, whole_s),
        "cpu_s": round(watch.cpu_s, 1),
        "mib": {**kinds.mib, "all": kinds.sum_mib},
        "load": round(os.getloadavg()[0], 1),
    }


def _times(report: dict[str, Any], whole_s: float) -> dict[str, Any]:
    """Return the seconds of a run: the whole process, the part that both do, that part warm.

    The part is preprocess and convert, or the stage spark: with the start of the session. The
    second run of the peer is no part of its whole.
    """
    seconds = report.get("seconds")
    if seconds is not None:
        part_s = seconds["preprocess"] + seconds["convert"]
        return {"whole_s": round(whole_s, 2), "part_s": round(part_s, 2), "warm_s": None}
    again_s = 0.0 if "stages" in report else report["warm_s"]
    times = {key: report[key] for key in ("part_s", "warm_s")}
    found = {"whole_s": round(whole_s - again_s, 2), **times}
    return found | ({"application": report["application"]} if "application" in report else {})


def _print_table(runs: dict[tuple[int, str], list[dict[str, Any]]]) -> None:
    print(f"\n{_HEAD}\n|{' --- |' * 9}")
    for (copies, name), found in runs.items():
        whole_s, part_s, cpu_s, load = (
            median(run[key] for run in found) for key in ("whole_s", "part_s", "cpu_s", "load")
        )
        warm = [run["warm_s"] for run in found if run["warm_s"] is not None]
        warm_s = f"{median(warm):.1f}" if warm else ""
        kinds = {kind: max(run["mib"][kind] for run in found) for kind in found[0]["mib"]}
        memory = ", ".join(f"{kind} {mib}" for kind, mib in kinds.items())
        rate = copies * RECORDS_PER_COPY / part_s
        print(
            f"| {copies} | {name} | {whole_s:.1f} | {part_s:.1f} | {warm_s} | {rate:.0f} |"
            f" {cpu_s:.1f} | {memory} | {load:.1f} |"
        )


if __name__ == "__main__":
    main()
