"""Time of ``trainfeed status`` over many data sets: by the index, without it, and as a command.

Each data set has a specification, and one version for every day: manifests like those of flights,
without their shards, which a status does not look at. Times are the median of the runs; in brackets
the CPU seconds, which say more where the machine does other work too.

    PYTHONPATH=include:. python benchmarks/status/bench_status.py FOLDER [--sets 20]
        [--intervals 1000] [--runs 7]

FOLDER is on the file system to measure; the command makes it, and uses it again if it is there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from trainfeed.core.intervals import Interval, Schedule, format_time
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, DatasetStatus, dataset_status
from trainfeed.look.status.versions import INDEX
from trainfeed.versions import DatasetFolder, Manifest, init_root, record_schedule
from trainfeed.versions.layout import CURRENT, MANIFEST, MANIFEST_DIGEST

START = datetime(2020, 1, 1, tzinfo=UTC)
PARTITIONS = 3
SHARDS = 6
HEX = "0" * 64

SPEC = """
name: {name}
description: measured
schedule: "@daily"
start: 2020-01-01
end: {last}
seed: 7
source:
  kafka: {{connection: kafka_default, topic: flights}}
preprocess: {{function: "preprocess:flights", input: record}}
schema:
  value: {{dtype: float32}}
split: {{train: 0.8, eval: 0.2, by: record}}
output: {{codec: zstd, shards: 3}}
"""

CODE = """
def flights(record, lookups):
    return []
"""


def manifest(name: str, number: int, interval: Interval) -> bytes:
    """Return the manifest of a day with 900 records of three partitions."""
    shard = {"bytes": 9_000, "samples": 100, "sha256": HEX, "records_sha256": HEX}
    leaf = {"records": 300, "bytes": 60_000, "l1": "0" * 16, "l2": "0" * 16}
    sources = [f"kafka:flights/{partition}" for partition in range(PARTITIONS)]
    planned = {
        "start": 300 * number,
        "end": 300 * (number + 1),
        "connection": "kafka_default",
        "topic": "flights",
        "topic_uuid": "11111111-1111-4111-8111-111111111111",
        "cluster": "abcdefghijklmnopqrstuv",
    }
    account = dict.fromkeys(("read", "valid", "quarantined"), leaf)
    return Manifest.model_validate(
        {
            "format": 1,
            "dataset": name,
            "interval": {"start": format_time(interval.start), "end": format_time(interval.end)},
            "generation": 1,
            "supersedes": None,
            "fingerprint": HEX,
            "content_digest": HEX,
            "empty": False,
            "schema": [{"name": f"field_{n}", "dtype": "float32", "shape": []} for n in range(12)],
            "splits": {
                split: {
                    "millionths": 500_000,
                    "samples": 300,
                    "shards": [{"name": f"{name}-{split}-{n:05}", **shard} for n in range(SHARDS)],
                }
                for split in ("eval", "train")
            },
            "files": [{"name": "CHUNKS.arrow", "bytes": 900, "sha256": HEX}],
            "sources": sources,
            "inputs": {
                source: {**planned, "partition": partition}
                for partition, source in enumerate(sources)
            },
            "gaps": [],
            "late": {"policy": {"flights": "keep"}, "late": 0, "max_lateness_ms": 0},
            "ledger": {source: {**account, "filtered": {}} for source in sources},
            "quarantine": {"records": 0, "reasons": {}},
            "filtered": {},
            "gates": [],
            "waivers": [],
            "code": {"digest": HEX, "files": {"preprocess.py": HEX}},
            "lookups": {},
            "libraries": {"numpy": "2", "pyarrow": "20"},
            "plan": "0123456789abcdef-g0001",
        }
    ).to_bytes()


def prepare(place: Path, sets: int, intervals: int) -> None:
    """Make root and specifications, unless they are there."""
    if (place / "root").exists():
        return
    init_root(place / "root")
    days = list(islice(Schedule("@daily", START).intervals(), intervals))
    for number in range(sets):
        name = f"set_{number:03}"
        (place / "datasets" / name).mkdir(parents=True)
        (place / "datasets" / name / "dataset.yaml").write_text(
            SPEC.format(name=name, last=days[-1].name)
        )
        (place / "datasets" / name / "preprocess.py").write_text(CODE)
        folder = DatasetFolder(place / "root", name)
        for count, day in enumerate(days):
            version = folder.version(day.name, 1)
            version.mkdir(parents=True)
            data = manifest(name, count, day)
            (version / MANIFEST).write_bytes(data)
            (version / MANIFEST_DIGEST).write_text(f"{hashlib.sha256(data).hexdigest()}\n")
            (version.parent / CURRENT).write_text("g0001\n")
        record_schedule(folder, Schedule("@daily", START))


def statuses(place: Path, now: datetime) -> list[DatasetStatus]:
    """Return the status of every data set."""
    attempts = Attempts(Location.parse(str(place / "work")), now)
    names = sorted(path.name for path in (place / "datasets").iterdir())
    return [
        dataset_status(
            DatasetFolder(place / "root", name),
            datasets=place / "datasets",
            attempts=attempts,
            now=now,
        )
        for name in names
    ]


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measured(what: str, work: Callable[[], object], runs: int) -> None:
    """Print the medians of some runs."""
    walls, cpus = [], []
    for _ in range(runs):
        begun, before = time.perf_counter(), cpu_s()
        work()
        walls.append(time.perf_counter() - begun)
        cpus.append(cpu_s() - before)
    print(f"{what}: {statistics.median(walls):.3f} s ({statistics.median(cpus):.3f} s CPU)")


def without_index(place: Path, now: datetime) -> None:
    """Make every status from the manifests."""
    for index in (place / "root").glob(f"*/{INDEX}"):
        index.unlink()
    statuses(place, now)


def command(place: Path) -> None:
    """Run ``trainfeed status`` as a process."""
    places = {
        "TRAINFEED_ROOT": str(place / "root"),
        "TRAINFEED_WORK": str(place / "work"),
        "TRAINFEED_DATASETS": str(place / "datasets"),
    }
    run = [sys.executable, "-m", "trainfeed", "status", "--json"]
    subprocess.run(run, env={**os.environ, **places}, capture_output=True, check=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--intervals", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=7)
    asked = parser.parse_args()
    place = asked.folder.absolute()
    prepare(place, asked.sets, asked.intervals)
    now = START + timedelta(days=asked.intervals, hours=6)
    found = statuses(place, now)
    count = sum(each.counts.get("published", 0) for each in found)
    print(f"{len(found)} data sets, {count} of {asked.sets * asked.intervals} versions published")
    measured("by the index", lambda: statuses(place, now), asked.runs)
    measured("from manifests", lambda: without_index(place, now), max(1, asked.runs // 2))
    statuses(place, now)
    measured("command", lambda: command(place), asked.runs)


if __name__ == "__main__":
    main()
