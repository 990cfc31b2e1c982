"""A year of nights, played at once or in parts, on the services that there are."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from tests.retention.kept import Kept
from tests.retention.measured import Night, require_bounded
from tests.retention.nights import Nights
from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import environment_of, make_project
from trainfeed.files.stores import Location
from trainfeed.versions import init_root
from trainfeed.versions.bucket_root import init_bucket_root
from trainfeed.versions.state_folder import make_state

__all__ = ["PARTS_LEFT", "placed", "play_part"]

# EX_TEMPFAIL of sysexits.h: the same command goes on.
PARTS_LEFT: Final = 75
# Nights after which bytes are measured.
_EVERY: Final = 6
# What every year of a seed has to have done.
_ALL: Final = frozenset(
    {
        "builds that stopped",
        "leases",
        "readers that were killed",
        "rebuilds",
        "tags",
        "trainings",
        "trainings that failed",
        "waivers",
        "withdrawals",
        "withdrawals of what is in use",
    }
)
_OF_LEASES: Final = frozenset({"leases", "readers that were killed"})
_A_YEAR: Final = 360


def placed(path: Path, name: str, *, is_in_bucket: bool = False) -> Project:
    """Return the small data set, with landing and root on the services that there are.

    Args:
        path: Folder of the project; one that is there already is used as it is.
        name: Name of the folders on the services.
        is_in_bucket: Whether the root is in the bucket of ``TEST_S3_URI``.
    """
    is_new = not (path / "datasets").exists()
    env = make_project(path).env if is_new else environment_of(path)
    if hdfs := os.environ.get("TEST_HDFS_URI"):
        env = replace(env, landing=f"{hdfs}/{name}/landing")
    if is_in_bucket:
        bucket = Location.parse(os.environ["TEST_S3_URI"]) / name
        env = replace(env, root=str(path / "state"), bucket=bucket.uri)
        if is_new:
            init_bucket_root(bucket)
            make_state(Path(env.root), bucket, is_private=False)
    elif ceph := os.environ.get("TEST_CEPHFS_PATH"):
        env = replace(env, root=str(Path(ceph) / name))
        if is_new:
            init_root(Path(env.root))
    return Project(path, env)


def play_part(
    folder: Path, number: int, seed: int, minutes: float, *, is_in_bucket: bool = False
) -> bool:
    """Play nights until all are played or the time is over; return whether all are.

    Args:
        folder: Folder of the year, which the next part goes on with.
        number: Number of nights.
        seed: Decides what people do.
        minutes: Time after which no further night is begun.
        is_in_bucket: Whether the root is in a bucket. Nobody leases there, because the times of
            leases are then those of the store, which no simulation moves.

    Raises:
        NotGoingOnError: The folder has another year, or one that was killed within a night.
        AssertionError: The storage does not agree with the model.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if is_in_bucket:
        os.environ["TRAINFEED_CACHE"] = str(folder / "cache")
    project = placed(folder / "project", f"nights-{folder.name}", is_in_bucket=is_in_bucket)
    asked = {"nights": number, "seed": seed, "landing": project.env.landing}
    root = project.env.bucket or project.env.root
    kept, nights = Kept(folder, {**asked, "root": root}), Nights(project, seed)
    seen: list[Night] = []
    first = 0
    if kept.is_there:
        first, told = kept.read(nights, seen)
        _tell({"goes on with night": first, "told": told})
    else:
        nights.prepare(number)
    end = _played(nights, kept, seen, range(first, number), minutes)
    if end < number:
        _tell({"played": end, "of": number, "left": "the same command goes on"})
        return False
    _require_a_year(nights, seen, number)
    _remove(project)
    return True


def _played(nights: Nights, kept: Kept, seen: list[Night], numbers: range, minutes: float) -> int:
    """Play nights; return the number of the first that was not played."""
    started = time.monotonic()
    with _until_asked_to_end() as asked:
        for number in numbers:
            kept.begin(nights, seen, number)
            landing = nights.play_one(number)
            if number % _EVERY == 0 or number == numbers[-1]:
                seen.append(nights.measured(number, landing))
                seconds = round(time.monotonic() - started)
                _tell({**asdict(seen[-1]), "seconds": seconds, "load": round(os.getloadavg()[0])})
                require_bounded(seen, nights.rules)
            kept.end(nights, seen, number)
            if asked or time.monotonic() - started > 60 * minutes:
                return number + 1
    return numbers.stop


@contextmanager
def _until_asked_to_end() -> Iterator[list[int]]:
    """Yield a list that gets the number of a signal to end, and end no night in its middle."""
    asked: list[int] = []
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {each: signal.signal(each, lambda number, _: asked.append(number)) for each in signals}
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _require_a_year(nights: Nights, seen: list[Night], number: int) -> None:
    _tell(nights.people.counts)
    if number < _A_YEAR:
        return
    assert seen[-1].landing_ever > 300 * seen[0].landing
    assert seen[-1].versions_ever > 300 * seen[0].versions // 2
    left_out = _OF_LEASES if nights.is_in_bucket else frozenset()
    assert {what for what, times in nights.people.counts.items() if times} >= _ALL - left_out


def _remove(project: Project) -> None:
    """Remove what a year that is over has on the services, and its project with the state."""
    Location.parse(project.env.landing).delete(recursive=True)
    if project.env.bucket is not None:
        Location.parse(project.env.bucket).delete(recursive=True)
    shutil.rmtree(project.env.root, ignore_errors=True)
    shutil.rmtree(project.path.parent)


def _tell(row: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
