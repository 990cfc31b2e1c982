"""Simulated nights of one data set: build, train, tag, lease, rebuild, then the run of retention.

The topic is recorded once, with a small day for every night. A night has a time of its own: what
the night publishes gets this time as its modification time, and retention and leases get the time
as their clock. Nothing else is simulated: builds, jobs, tags, leases and removals are those of the
package, on whatever storage the environment names.

After every night a model of the rules says which intervals have landing files, and which versions
are in use; the storage must agree with it exactly.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tests.unit.pipeline.clicks import DAY_MS, START_MS, Project, batch, event
from trainfeed.dataset import Version
from trainfeed.dataset.leases import HeldLease, hold_versions
from trainfeed.dataset.tags import Decision, apply_change, propose_tag, tagged_versions, untag
from trainfeed.errors import NotFoundError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import landing_name_of, load_plan
from trainfeed.retention import KINDS, Context, execute, plan_removals
from trainfeed.storage import Location
from trainfeed.training.launch import train
from trainfeed.withdrawal import Maker, withdraw

START: Final = datetime(2024, 3, 1, tzinfo=UTC)
EVENTS: Final = 24
PARTITIONS: Final = 2
LANDING_DAYS: Final = 30
TRAINING_DAYS: Final = 45
INTERVAL_DAYS: Final = 120
RULES: Final = (
    f"retention: {{keep_generations: 2, keep_intervals_days: {INTERVAL_DAYS}, "
    f"landing: {{keep_days: {LANDING_DAYS}}}, trainings: {{keep_days: {TRAINING_DAYS}}}}}"
)
TRAIN: Final = """
def main(job):
    (job.output / "model.bin").write_bytes(b"m" * 20_000)
    return {"samples": sum(1 for _ in job.open("train").reader()())}
"""
_LEASE: Final = timedelta(days=7)


@dataclass(frozen=True)
class Night:
    """What is there after one night, in bytes.

    Attributes:
        number: Number of the night, from 0.
        landing: Bytes of landing files.
        landing_ever: Bytes of all landing files that were ever written.
        versions: Bytes of all versions.
        versions_ever: Bytes of all versions that were ever published.
        trainings: Bytes of all job folders.
        removed: Number of items that retention removed this night.
    """

    number: int
    landing: int
    landing_ever: int
    versions: int
    versions_ever: int
    trainings: int
    removed: int


@dataclass
class Nights:
    """A data set, its nights, and the model of its retention."""

    project: Project
    seed: int
    with_training: bool = True
    landed: dict[str, datetime] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    leases: list[tuple[HeldLease, int]] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    versions_ever: int = 0
    withdrawn: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now = START
        self.landing = Location.parse(self.project.env.landing)

    def prepare(self, nights: int) -> None:
        """Record a day for every night, and write the rules."""
        days = [_day(number) for number in range(nights)]
        rows = [row for rows in days for row in rows]
        self.project.record({partition: [batch(rows)] for partition in range(PARTITIONS)})
        end = START + timedelta(days=nights - 1)
        self.project.edit("end: 2024-03-31", f"end: {end:%Y-%m-%d}")
        training = '\ntrain: {entry: "train:main", window: 2}' if self.with_training else ""
        self.project.edit("seed: 7", f"seed: 7\n{RULES}{training}")
        (self.project.env.datasets / "clicks" / "train.py").write_text(TRAIN)

    def run(self, number: int) -> Night:
        """Play one night, and compare the storage with the model."""
        name = _name(number)
        self.now = START + timedelta(days=number + 1, hours=1)
        self._build(name)
        self._events(number)
        if self.with_training and number % 14 == 13:
            self._train(name)
        removed = self._retention()
        self._require_model()
        return self._measured(number, removed)

    def _events(self, number: int) -> None:
        """Let people and readers do what they do on some nights."""
        past = _name(self.random.randrange(max(0, number - 100), number + 1))
        if past in self.withdrawn:
            past = _name(number)
        if self.random.random() < 0.08:
            self._count("rebuilds")
            self._build(past, rebuild=f"night {number}")
        if self.random.random() < 0.05:
            self._count("tags")
            self._tag(_name(max(0, number - self.random.randrange(40))), number)
        if self.random.random() < 0.08:
            self._count("leases")
            self._lease(past, number)
        if self.random.random() < 0.04:
            self._count("builds that failed")
            plan(self._spec, self.project.interval(past), self.project.env, rebuild=f"try {number}")
            self.waiting.setdefault(past, number)
        self._end_uses(number)
        if self.random.random() < 0.04 and past not in {_name(number), *self.waiting}:
            self._withdraw(past, number)

    def _end_uses(self, number: int) -> None:
        for tag, since in list(self.tags.items()):
            if number - since > 50:
                untag(self.project.folder, tag, Decision.now("no longer needed"))
                del self.tags[tag]
        for held, until in list(self.leases):
            if number > until:
                held.release()
                self.leases.remove((held, until))
            else:
                held.renew()
        for interval, since in list(self.waiting.items()):
            if number - since > 10:  # a person clears the run: the build is made after all
                self._build(interval, rebuild=f"try {since}")
        for interval, since in list(self.withdrawn.items()):
            if number - since > 5:
                self._build(interval, rebuild=f"the source is as it was, night {number}")
                del self.withdrawn[interval]

    def _build(self, name: str, **request: str) -> None:
        report = self.project.build(name, **request)
        self.waiting.pop(name, None)
        version = self.project.version(name)
        account = version.manifest.ledger
        total = sum(leaf["read"]["records"] for leaf in account.values())
        assert total == EVENTS * PARTITIONS, (name, total)
        if report["verdict"] == "built":
            os.utime(version.path, (self.now.timestamp(), self.now.timestamp()))
            self.versions_ever += _size(version.path)
        self.landed[name] = self._published(name)
        planned = load_plan(self.project.folder, PlanRef("clicks", name, version.manifest.plan))
        for piece in planned.ranges:
            file = landing_name_of(planned.inputs[piece.source], piece)
            self.sizes[file] = (self.landing / file).stat().size_bytes

    def _train(self, name: str) -> None:
        self._count("trainings")
        report = train(self._spec, self.project.env, self.project.interval(name))
        result = Path(report["folder"]) / "result.json"
        os.utime(result, (self.now.timestamp(), self.now.timestamp()))

    def _tag(self, name: str, number: int) -> None:
        tag = f"t{number}"
        folder = self.project.folder
        apply_change(folder, propose_tag(folder, name, tag, Decision.now("evaluated")))
        self.tags[tag] = number

    def _lease(self, name: str, number: int) -> None:
        version = self.project.version(name)
        used = [(name, version.manifest.generation)]
        held = hold_versions(
            self.project.folder, used, "a reader", length=_LEASE, clock=lambda: self.now
        )
        self.leases.append((held, number + self.random.randrange(1, 30)))

    def _withdraw(self, name: str, number: int) -> None:
        """Withdraw what readers get, where nobody needs it to be there."""
        generation = self.project.version(name).manifest.generation
        if len(self.project.folder.generations(name)) == 1 and number - _number(name) > 20:
            self._count("withdrawals")
            maker = Maker("a person", "test", "wrong values")
            withdraw(self.project.env, "clicks", name, generation, maker)
            self.withdrawn[name] = number

    def _retention(self) -> int:
        """Run retention until nothing is left: plans of a retired interval go after its landing."""
        removed = 0
        for _ in range(3):
            context = Context.of(self._spec, self.project.env, now=self.now)
            found = plan_removals(context, KINDS)
            done = execute(context, KINDS, found)
            assert done.expired == found.expired
            removed += len(done.expired)
            if not found.expired:
                return removed
        raise AssertionError(found.expired)

    def _require_model(self) -> None:
        used = self._used()
        for name, generation in used:
            Version.open(self.project.folder.version(name, generation)).verify()
        wanted = {name for name, _ in used} | set(self.waiting)
        limit = self.now - timedelta(days=LANDING_DAYS)
        self.landed = {name: at for name, at in self.landed.items() if at > limit or name in wanted}
        assert {_interval_of(file) for file in self._files()} == set(self.landed)
        last = _number(f"{self.now - timedelta(days=1):%Y-%m-%d}")
        young = {_name(each) for each in range(max(0, last - INTERVAL_DAYS + 2), last + 1)}
        folder = self.project.folder
        readable = {name for name in folder.intervals() if folder.readable_generation(name)}
        assert young - readable <= set(self.withdrawn)
        assert readable <= young | {name for name, _ in used} | set(self._aging())

    def _aging(self) -> list[str]:
        """Return the intervals at the border, and those published again since their end."""
        limit = self.now - timedelta(days=INTERVAL_DAYS + 1)
        names = self.project.folder.intervals()
        return [name for name in names if self._last_published(name) > limit]

    def _last_published(self, name: str) -> datetime:
        paths = self.project.folder.interval(name).glob("g[0-9][0-9][0-9][0-9]")
        times = [datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in paths]
        return max(times, default=START)

    def _used(self) -> set[tuple[str, int]]:
        held = {version for lease, _ in self.leases for version in lease.lease.versions}
        return {*tagged_versions(self.project.folder), *held}

    def _published(self, name: str) -> datetime:
        path = self.project.folder.version(name, self.project.version(name).manifest.generation)
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def _files(self) -> list[str]:
        return [name for name in self.sizes if (self.landing / name).exists()]

    def _measured(self, number: int, removed: int) -> Night:
        folder = self.project.folder.path
        return Night(
            number=number,
            landing=sum(info.size_bytes for info in _below(self.landing)),
            landing_ever=sum(self.sizes.values()),
            versions=_size(folder / "versions"),
            versions_ever=self.versions_ever,
            trainings=_size(folder / "training"),
            removed=removed,
        )

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    @property
    def _spec(self):
        return self.project.spec


def _day(number: int):
    first = START_MS + number * DAY_MS
    step = DAY_MS // EVENTS
    return [event(i if i % 7 else -1, first + i * step) for i in range(EVENTS)]


def _name(number: int) -> str:
    return f"{START + timedelta(days=number):%Y-%m-%d}"


def _number(name: str) -> int:
    return (datetime.fromisoformat(name).replace(tzinfo=UTC) - START).days


def _interval_of(file: str) -> str:
    """Return the interval of a landing file: every day has the same number of offsets."""
    return _name(int(file.rpartition("/")[2][:20]) // EVENTS)


def _below(folder: Location):
    try:
        infos = folder.list()
    except NotFoundError:
        return
    for info in infos:
        if info.is_dir:
            yield from _below(folder / info.name)
        else:
            yield info


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
