"""What does a training job cost beside its training?

``python -m benchmarks.training launch [--ranks 2] [--rounds 7]``: a job whose trainer returns at
once, from the call of the launcher to the verified result; wall time, and processor time of the
ranks. ``python -m benchmarks.training stall ROOT [INTERVAL …]``: the share of time in which the
trainer of flights waits for the loader, over published versions of a root. ``… save``: a
checkpoint of a model of 1 MB.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.training import TrainingJob
from trainfeed.training.jobs import (
    RESULT_FILE,
    JobRecord,
    JobResult,
    JobRoots,
    JobSpec,
    JobVersion,
    LocalLauncher,
)
from trainfeed.versions import DatasetFolder, Version

ROOT = Path(__file__).parents[2]
TRAINER = "def main(job):\n    return {'a': 1.0}\n"


def job_of(code: Path, versions: list[JobVersion], **fields: Any) -> JobSpec:
    """Return a job over versions."""
    known = {"dataset": "flights", "interval": "2013-01-03", "folder": ".", "entry": "train:main"}
    digest = digest_of_texts(training_texts(code))
    return JobSpec.named(**known, code=digest, seed=7, versions=versions, **fields)


def launch(ranks: int, rounds: int) -> None:
    """Print what a job with an empty trainer takes."""
    walls, processors = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder, "home")
            home.mkdir()
            Path(folder, "train.py").write_text(TRAINER)
            record = JobRecord(home)
            job = job_of(Path(folder), [], ranks=ranks)
            begun_s, before_s = time.perf_counter(), children_s()
            record.write(job)
            LocalLauncher(JobRoots(Path(folder), Path(folder))).start(job, home)
            JobResult.read(home / RESULT_FILE).verify(home)
            walls.append(time.perf_counter() - begun_s)
            processors.append(children_s() - before_s)
    print(
        f"{ranks} ranks, {rounds} rounds: wall median {statistics.median(walls):.2f} s, least"
        f" {min(walls):.2f} s; processor time of the ranks median"
        f" {statistics.median(processors):.2f} s; load {os.getloadavg()[0]:.1f}"
    )


def children_s() -> float:
    """Return the processor time of children that were waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stall(root: Path, intervals: list[str], rounds: int) -> None:
    """Print how long the trainer of flights waits for its loader."""
    folder = DatasetFolder(root, "flights")
    names = intervals or sorted(path.name for path in (root / "flights" / "versions").iterdir())
    versions = [planned(root, newest(folder, name)) for name in names]
    package = ModuleType("flights")
    package.__path__ = [str(ROOT / "include" / "datasets" / "flights")]
    sys.modules["flights"] = package
    trainer = importlib.import_module("flights.train")
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as home:
            Path(home, "output").mkdir()
            spec = job_of(ROOT / "include" / "datasets" / "flights", versions, ranks=1)
            job = TrainingJob(spec, 0, 1, Path(home, "output"), JobRoots(root, None))
            begun_s = time.perf_counter()
            metrics = trainer.main(job)
            wall_s = time.perf_counter() - begun_s
            report = job._state.loaders._loaders["train"].report()  # noqa: SLF001 - what a trainer has not
            print(
                f"{len(versions)} days, {report.batches} steps: {wall_s:.2f} s, waited"
                f" {report.wait_s:.4f} of {report.elapsed_s:.2f} s, stall_fraction"
                f" {report.stall_fraction:.4f}; auc {metrics['auc']:.4f}; load"
                f" {os.getloadavg()[0]:.1f}"
            )


def newest(folder: DatasetFolder, interval: str) -> Version:
    """Return the version of an interval that readers get."""
    generation = folder.current_generation(interval)
    if generation is None:
        sys.exit(f"expected a published version of {interval} in {folder.root}, found none")
    return Version.open(folder.version(interval, generation))


def planned(root: Path, version: Version) -> JobVersion:
    """Return what a job says of a version."""
    return JobVersion(
        interval=version.path.parent.name,
        generation=version.path.name,
        path=version.path.relative_to(root).as_posix(),
        content_digest=version.manifest.content_digest,
        manifest_sha256=version.manifest_sha256,
    )


def save(rounds: int) -> None:
    """Print what a checkpoint of 1 MB takes, and a line of metrics."""
    with tempfile.TemporaryDirectory() as home:
        Path(home, "output").mkdir()
        spec = job_of(ROOT / "include" / "datasets" / "flights", [], ranks=1)
        job = TrainingJob(spec, 0, 1, Path(home, "output"), JobRoots(None, None))
        model, times = np.random.default_rng(1).random(1 << 17), []
        for step in range(rounds):
            begun_s = time.perf_counter()
            job.save(step, lambda folder: np.save(folder / "model.npy", model))
            times.append(time.perf_counter() - begun_s)
        begun_s = time.perf_counter()
        for step in range(10_000):
            job.log_metrics(step, loss=0.25)
        line_s = (time.perf_counter() - begun_s) / 10_000
    print(
        f"checkpoint of 1 MB: median {1000 * statistics.median(times):.1f} ms; a line of metrics:"
        f" {1e6 * line_s:.1f} µs; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Run the case that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["launch", "stall", "save"])
    parser.add_argument("root", nargs="?", type=Path, default=Path("data/root"))
    parser.add_argument("intervals", nargs="*")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.case == "launch":
        launch(options.ranks, options.rounds)
    elif options.case == "stall":
        stall(options.root, options.intervals, options.rounds)
    else:
        save(options.rounds)


if __name__ == "__main__":
    main()
