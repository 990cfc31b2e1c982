"""Time of the search for outdated versions: all current, all outdated, and as a command.

One data set of days, with manifests like those of flights and the plan files beside them. For the
second figure the seed is another one than that of the versions. Times are the median of the runs;
in brackets the CPU seconds, which say more where the machine does other work too.

    PYTHONPATH=include:. python benchmarks/outdated/bench_outdated.py FOLDER [--intervals 1000]
        [--runs 5]

FOLDER is on the file system to measure; the command makes it, and uses it again if it is there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

from benchmarks.status.bench_status import CODE, SPEC, START, manifest, measured
from trainfeed.core import canonical_json
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval, Schedule
from trainfeed.look.outdated import OutdatedReport, find_outdated
from trainfeed.pipeline.planner.fingerprint import Recipe
from trainfeed.pipeline.plans import planned_of
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Manifest, init_root
from trainfeed.versions.layout import CURRENT, MANIFEST, MANIFEST_DIGEST

NAME = "flights"
# About the size of a plan beside the values of its fingerprint.
FILLING = "0" * 4_000


def prepare(place: Path, intervals: int) -> None:
    """Make root, specification, versions and plans, unless they are there."""
    if (place / "root").exists():
        return
    init_root(place / "root")
    days = list(islice(Schedule("@daily", START).intervals(), intervals))
    datasets = place / "datasets" / NAME
    datasets.mkdir(parents=True)
    (datasets / "dataset.yaml").write_text(SPEC.format(name=NAME, last=days[-1].name))
    (datasets / "preprocess.py").write_text(CODE)
    recipe = Recipe.of(load_spec(datasets))
    folder = DatasetFolder(place / "root", NAME)
    for number, day in enumerate(days):
        _publish(folder, recipe, number, day)


def _publish(folder: DatasetFolder, recipe: Recipe, number: int, day: Interval) -> None:
    made = Manifest.from_bytes(manifest(NAME, number, day))
    inputs = {source: planned_of(value) for source, value in made.inputs.items()}
    values = recipe.fingerprint_of(day, inputs, [])
    fingerprint = canonical_json.sha256_of(values)
    plan = f"{fingerprint[:16]}-g0001"
    code = {"digest": recipe.code, "files": [*recipe.code_files]}
    data = made.model_copy(
        update={"fingerprint": fingerprint, "plan": plan, "code": code}
    ).to_bytes()
    version = folder.version(day.name, 1)
    version.mkdir(parents=True)
    (version / MANIFEST).write_bytes(data)
    (version / MANIFEST_DIGEST).write_text(f"{hashlib.sha256(data).hexdigest()}\n")
    (version.parent / CURRENT).write_text("g0001\n")
    path = folder.plan(day.name, plan)
    path.parent.mkdir(parents=True)
    path.write_bytes(canonical_json.dumps({"filling": FILLING, "fingerprint_of": values}))


def report(place: Path) -> OutdatedReport:
    """Search once."""
    env = Environment(
        root=str(place / "root"),
        landing=str(place / "landing"),
        work=str(place / "work"),
        kafka={},
        datasets=place / "datasets",
    )
    return find_outdated(load_spec(place / "datasets" / NAME), env)


def command(place: Path) -> None:
    """Run ``trainfeed outdated`` as a process."""
    places = {
        "TRAINFEED_ROOT": str(place / "root"),
        "TRAINFEED_LANDING": str(place / "landing"),
        "TRAINFEED_WORK": str(place / "work"),
        "TRAINFEED_DATASETS": str(place / "datasets"),
    }
    run = [sys.executable, "-m", "trainfeed", "outdated", NAME, "--json"]
    subprocess.run(run, env={**os.environ, **places}, capture_output=True, check=False)


def seed(place: Path, old: int, new: int) -> None:
    """Change the seed of the specification."""
    path = place / "datasets" / NAME / "dataset.yaml"
    path.write_text(path.read_text().replace(f"seed: {old}\n", f"seed: {new}\n"))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--intervals", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    place = asked.folder.absolute()
    prepare(place, asked.intervals)
    print(report(place).counts)
    measured("all current", lambda: report(place), asked.runs)
    measured("all current, as a command", lambda: command(place), asked.runs)
    seed(place, 7, 8)
    print(report(place).counts)
    measured("all outdated", lambda: report(place), asked.runs)
    measured("all outdated, as a command", lambda: command(place), asked.runs)
    seed(place, 8, 7)


if __name__ == "__main__":
    main()
