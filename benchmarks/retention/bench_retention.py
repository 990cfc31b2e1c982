"""Time of a dry run of ``trainfeed prune --all`` over many data sets, by the clock and the CPU.

The root is that of the benchmark of the status: a version for every day, manifests alone. The rule
keeps half of the days, so that every second version is looked at as one that would go.

    PYTHONPATH=include:. python benchmarks/retention/bench_retention.py FOLDER [--sets 20]
        [--intervals 1000] [--runs 3]

FOLDER is on the file system to measure; the command makes it, and uses it again if it is there.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from benchmarks.status.bench_status import START, measured, prepare
from trainfeed.core.config import Environment
from trainfeed.specification import RetentionSpec, load_spec
from trainfeed.upkeep.retention import Context, Removals, prune, scheduled_kinds


def dry_runs(place: Path, keep: int, days: int) -> list[Removals]:
    """Return what a run would remove from every data set."""
    places = {name: str(place / name) for name in ("root", "landing", "work")}
    env = Environment(**places, kafka={}, datasets=place / "datasets")
    (place / "landing").mkdir(exist_ok=True)
    rules, found = RetentionSpec(keep_intervals=keep), []
    for folder in sorted((place / "datasets").iterdir()):
        spec = load_spec(folder).model_copy(update={"retention": rules})
        context = Context.of(spec, env, now=START + timedelta(days=days + 1))
        found.append(prune(context, scheduled_kinds(spec), dry_run=True))
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--intervals", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    place, keep = asked.folder.absolute(), asked.intervals // 2
    prepare(place, asked.sets, asked.intervals)
    found = dry_runs(place, keep, asked.intervals)
    going = sum(len(each.expired) for each in found)
    print(f"{len(found)} data sets, {going} intervals would go")
    if going != asked.sets * (asked.intervals - keep):
        raise SystemExit("expected every interval beyond the rule")
    measured("dry run", lambda: dry_runs(place, keep, asked.intervals), asked.runs)


if __name__ == "__main__":
    main()
