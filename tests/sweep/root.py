"""A small publication root with every kind of file, and copies of it at stages of its life."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np

from tests.sweep.project import CLICKS, MODEL, VIEWS, Project, day
from trainfeed.conversion import convert_arrays
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.samples import Field, Schema
from trainfeed.uploads import mark_announced
from trainfeed.versions import TrainingMarks, Untrained
from trainfeed.versions.history import Action, record_action
from trainfeed.versions.lease import hold_build, hold_versions
from trainfeed.versions.skip import AcceptedHole, write_hole

__all__ = ["BUILT", "NEXT", "STAGES", "Life", "files_of"]

# The interval whose build is stopped between its stages, and the one after it.
BUILT: Final = day(5)
NEXT: Final = day(6)
STAGES: Final = ("plan", "ingest", "preprocess", "convert", "check", "publish", "later")
# What is damaged. Sources and specifications are not: their files keep their identities.
PARTS: Final = ("root", "landing", "work", "converted")
_LEASED: Final = timedelta(days=7)
_LONG_AGO: Final = datetime(2024, 4, 1, tzinfo=UTC)


@dataclass
class Life:
    """The life of a root in a folder.

    Attributes:
        path: The folder; ``now`` in it is where commands work, ``kept`` has a copy per stage.
        kind: What runs its commands.
        older: Stage → path of a file → what it held earlier in its life, the newest last.
        ended: When the last copy was made: what has a later time is of a case.
    """

    path: Path
    kind: type[Project] = Project
    older: dict[str, dict[str, list[bytes]]] = field(default_factory=dict)
    ended: datetime | None = None
    _seen: dict[str, bytes] = field(default_factory=dict)
    _older: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def project(self) -> Project:
        return self.kind(self.path / "now")

    @classmethod
    def lived(cls, path: Path, kind: type[Project] = Project) -> Life:
        """Live the whole life in an empty folder."""
        life = cls(path, kind)
        life.project.path.mkdir()
        life.project.write()
        for step in (_begin, _withdraw, _waive, _look_ahead, _label, _train, _accept, _prune):
            for _ in step(life.project):
                life._note()
        for stage in _build_in_stages(life.project):
            life._keep(stage)
        life.ended = datetime.now(UTC)
        return life

    def again(self, stage: str) -> Project:
        """Put the root of a stage in the place of what commands have made of it."""
        for part in PARTS:
            shutil.rmtree(self.project.path / part, ignore_errors=True)
            kept = self.path / "kept" / stage / part
            shutil.copytree(kept, self.project.path / part, symlinks=True)
        return self.project

    def _keep(self, stage: str) -> None:
        self._note()
        for part in PARTS:
            kept = self.path / "kept" / stage / part
            shutil.copytree(self.project.path / part, kept, symlinks=True)
        self.older[stage] = {name: list(found) for name, found in self._older.items()}

    def _note(self) -> None:
        """Remember what files held before the last step."""
        now = {name: path.read_bytes() for name, path in files_of(self.project)}
        for name, data in now.items():
            if name in self._seen and self._seen[name] != data:
                self._older.setdefault(name, []).append(self._seen[name])
        self._seen |= now


def files_of(project: Project) -> Iterator[tuple[str, Path]]:
    """Yield name and path of the files of root, landing area, work files and conversions."""
    for part in PARTS:
        for path in sorted((project.path / part).rglob("*")):
            if path.is_file() and not path.is_symlink() and not path.name.endswith(".lock"):
                yield path.relative_to(project.path).as_posix(), path


def _begin(project: Project) -> Iterator[None]:
    project.must("init", str(project.root))
    _specify(project, "end: 2024-03-10", "end: 2024-03-09")
    for number in (1, 2, 3):
        project.must("build", f"{CLICKS}/{day(number)}")
        yield
    _specify(project, "end: 2024-03-09", "end: 2024-03-10")
    project.must("tag", CLICKS, f"{day(2)}", "base", "--why", "first")
    project.must("tag", CLICKS, f"{day(2)}", "passing", "--why", "a test")
    yield


def _withdraw(project: Project) -> Iterator[None]:
    """Withdraw one version and build it again; withdraw another one and restore it."""
    project.must("withdraw", f"{CLICKS}/{day(2)}/g0001", "--why", "labels of the day before")
    yield
    project.must("build", f"{CLICKS}/{day(2)}", "--rebuild", "right labels")
    project.must("withdraw", f"{CLICKS}/{day(3)}", "--why", "a doubt")
    project.must("restore", f"{CLICKS}/{day(3)}/g0001", "--why", "no doubt")
    yield
    project.must("tag", CLICKS, f"{day(2)}/{day(3)}", "base", "--why", "second")
    yield
    project.must("tag", CLICKS, f"{day(1)}/{day(3)}", "base", "--why", "third")
    project.must("untag", CLICKS, "passing", "--why", "it has passed")
    yield


def _waive(project: Project) -> Iterator[None]:
    """Waive the failed gate of one day; another day stays refused."""
    until = f"{datetime.now(UTC) + timedelta(days=300):%Y-%m-%d}"
    project.must("build", f"{CLICKS}/{day(4)}", status=1)
    yield
    project.must("waive", f"{CLICKS}/{day(4)}", "--why", "a storm", "--until", until)
    project.must("build", f"{CLICKS}/{day(4)}")
    yield
    project.must("build", f"{CLICKS}/{day(7)}", status=1)
    project.must("waive", f"{CLICKS}/{day(7)}", "--why", "another", "--until", until)
    yield


def _look_ahead(project: Project) -> Iterator[None]:
    """Plan a day and go no further; hold leases of a reader and of a build."""
    plan(project.spec(), _interval(project, day(9)), project.env)
    folder = project.folder()
    used = [(day(2), 2), (day(3), 1)]
    for held in (
        hold_versions(folder, used, "a reader", length=_LEASED),
        hold_build(folder, day(9), 1, "a build", length=_LEASED),
    ):
        data = held.path.read_bytes()
        held.release()
        # As of a process that was killed.
        held.path.write_bytes(data)
    yield


def _label(project: Project) -> Iterator[None]:
    """Publish days with labels, one of them corrected; skip one; refuse an upload."""
    project.upload(1, "a.csv", {100: 1, 101: 0, 102: 1})
    project.must("build", f"{VIEWS}/{day(1)}")
    yield
    project.upload(1, "b.csv", {101: 1})
    project.must("uploads", "check", VIEWS)
    mark_announced(project.folder(VIEWS), 1)
    yield
    project.must("build", f"{VIEWS}/{day(1)}", "--outdated", "rebuild")
    mark_announced(project.folder(VIEWS), 2)
    project.must("build", f"{VIEWS}/{day(2)}")
    yield
    for number in (3, 4):
        project.upload(number, f"c{number}.csv", {100 * number: 1})
        project.must("build", f"{VIEWS}/{day(number)}")
    project.upload(3, "d.csv", {1: "one"})
    project.must("uploads", "check", VIEWS, status=3)
    yield
    project.must("retire", f"{VIEWS}/{day(3)}", "--why", "no longer used")
    yield


def _train(project: Project) -> Iterator[None]:
    """Train on three windows; change aliases, also back; note what no training wants."""
    marks = TrainingMarks(project.folder())
    for number in (2, 3, 4):
        project.must("train", CLICKS, "--interval", day(number))
        project.must("models", "evaluate", f"{CLICKS}/{day(number)}")
        yield
    for version in ("v0001", "v0003"):
        project.must("models", "promote", f"{MODEL}/{version}", "--why", f"{version} is good")
        yield
    project.must("models", "rollback", MODEL, "--why", "slow")
    project.must("models", "promote", f"{MODEL}/v0003", "--why", "fast again")
    yield
    marks.announce([Untrained(day(4), 1)], "a test")
    marks.decline(Untrained(day(3), 1), "no training of it", "a test")
    yield


def _accept(project: Project) -> Iterator[None]:
    """Accept a hole, as after a change of the schedule."""
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    start, end = f"{day(8)}T00:00:00Z", f"{day(8)}T05:00:00Z"
    hole = AcceptedHole(CLICKS, start, end, who="ana", account="root", why="from 5 on now", at=at)
    details = {"hole": start, "end": end}
    made = Action.now("accept-hole", f"{CLICKS}/{hole.range}", why=hole.why, details=details)
    record_action(project.folder(), made)
    write_hole(project.folder(), hole)
    yield


def _prune(project: Project) -> Iterator[None]:
    """Retire a day; remove landing files, uploads, a generation, a model, and a training."""
    project.must("tag", CLICKS, f"{day(2)}/{day(3)}", "base", "--why", "fourth")
    _make_old(project)
    project.must("retire", f"{CLICKS}/{day(1)}", "--why", "older than the audit")
    yield
    rules = {
        CLICKS: "{keep_generations: 1, landing: {keep_days: 30}, models: {keep: 1},"
        " trainings: {keep: 1}}",
        VIEWS: "{keep_generations: 1, uploads: {max_bytes: 0}}",
    }
    for name, rule in rules.items():
        _specify(project, "seed: ", f"retention: {rule}\nseed: ", name)
        project.must("prune", name)
        _specify(project, f"retention: {rule}\nseed: ", "seed: ", name)
    yield
    blocks = [{"x": np.arange(12, dtype=np.int64)}]
    schema = Schema((Field("x", "int64"),))
    (project.path / "converted").mkdir()
    convert_arrays(project.path / "converted", lambda: iter(blocks), 2, "part", schema=schema)
    # It writes the index of versions.
    project.must("status", status=1)
    yield


def _build_in_stages(project: Project) -> Iterator[str]:
    """Build one day; yield after each of its stages, and after the next day."""
    planned = plan(project.spec(), _interval(project, BUILT), project.env)
    begun = Build(project.spec(), project.env, planned.ref)
    yield "plan"
    for stage in (ingest, preprocess, convert):
        for unit in range(planned.tasks[stage.__name__]):
            stage(begun, unit)
        yield stage.__name__
    check(begun)
    yield "check"
    publish(begun)
    yield "publish"
    project.must("build", f"{CLICKS}/{NEXT}")
    yield "later"


def _interval(project: Project, name: str):
    return project.spec().schedule_model().interval_named(name)


def _specify(project: Project, old: str, new: str, name: str = CLICKS) -> None:
    path = project.path / "datasets" / name / "dataset.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _make_old(project: Project) -> None:
    """Give versions, models and retirements a time of long ago, as rules of retention count it."""
    for path in (*project.root.glob("*/versions/*/g*"), *project.root.glob("models/*/v*/*")):
        os.utime(path, (_LONG_AGO.timestamp(),) * 2)
    for path in project.root.glob("*/versions/*/RETIRED.json"):
        os.utime(path, (_LONG_AGO.timestamp(),) * 2)
