"""Simulated nights of two data sets: builds, corrections, uses, then the run of retention.

The topic is recorded once, with a small day for every night. A night has a time of its own: what
is written in it gets this time as its modification time, and withdrawals, leases and retention have
it as their clock. Nothing else is simulated: builds, gates, jobs, tags, leases and removals are
those of the package, on whatever storage the environment names.

After every night the storage must agree with a model of the rules: exactly the landing files that
somebody wants, every version in use, and every interval that readers have to get.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.retention.builders import Builders
from tests.retention.clock import Clock
from tests.retention.days import interval_of, is_bad, name_of
from tests.retention.expected import Expected
from tests.retention.measured import Night, files_below, size_of
from tests.retention.people import People
from tests.retention.two_sets import Rules, TwoSets
from tests.unit.pipeline.clicks import Project
from trainfeed.files.stores import Location
from trainfeed.specification import DatasetSpec
from trainfeed.upkeep.retention import Context, prune, scheduled_kinds
from trainfeed.versions import Version

# Versions in use must be there every night, and are read in whole once a week.
_WEEK: Final = 7
# A plan goes in the run after its landing files, what it compares with in the one after that, then
# the plans and boundaries of this.
_RUNS: Final = 6


class Nights:
    """Two data sets, their nights, and the model of their retention.

    Args:
        project: A project with the data set ``clicks``.
        seed: Decides what people do when.
        rules: How long things are kept.
        with_training: Whether every 14th night trains.

    Attributes:
        removed: Number of items that retention has removed so far.
    """

    def __init__(
        self, project: Project, seed: int, rules: Rules | None = None, *, with_training: bool = True
    ) -> None:
        self.rules = rules or Rules()
        self.removed = 0
        self.expected = Expected(self.rules)
        self._sets, self._clock = TwoSets(project, self.rules), Clock()
        self.builders = Builders(self._sets, self.expected, self._clock)
        self.people = People(self._sets, self.builders, self.expected, self._clock, seed)
        self._with_training, self._env, self._folder = with_training, project.env, project.folder
        self._landing = Location.parse(project.env.landing)

    @property
    def is_in_bucket(self) -> bool:
        """Whether the publication root is in a bucket."""
        return self._env.bucket is not None

    def prepare(self, nights: int) -> None:
        """Record a day for every night, and write the rules."""
        self._sets.prepare(nights, with_training=self._with_training)

    def play(self, nights: int, every: int = 1) -> Iterator[Night]:
        """Play nights, and yield what there is after every so many of them, and after the last.

        Bytes are not measured after each, because on CephFS that takes longer than the night.
        """
        for number in range(nights):
            landing = self.play_one(number)
            if number % every == 0 or number == nights - 1:
                yield self.measured(number, landing)

    def go_on_after(self, number: int) -> None:
        """Set the time to that of a night which an earlier part has played."""
        self._clock.set_night(number)

    def play_one(self, number: int) -> int:
        """Play a night, and compare the storage with the model; return the bytes landed."""
        self._clock.set_night(number)
        name = name_of(number)
        if number % self.rules.views_every == 0:
            self.builders.build_views(name)
        if is_bad(number):
            self.builders.be_refused(name)
        else:
            self.builders.build(name)
        self.people.act(number)
        if self._with_training and number % 14 == 13:
            self.people.train(number)
        self.removed += sum(map(self._retained, self._sets.specs))
        landing = self._require_landing()
        self._require_versions(number)
        self._require_boundaries(number)
        return landing

    def _retained(self, spec: DatasetSpec) -> int:
        """Run retention as the schedule does, until nothing is left to remove."""
        removed = 0
        for _ in range(_RUNS):
            context = Context.of(spec, self._env, now=self._clock.now)
            found = prune(context, scheduled_kinds(spec))
            assert found.excess == ()
            if not found.expired:
                return removed
            removed += len(found.expired)
        raise AssertionError(found.expired)

    def _require_landing(self) -> int:
        """Compare the landing area with the model; return its bytes."""
        self.expected.forget_landing(self._clock.now)
        files = {name: info.size_bytes for name, info in files_below(self._landing)}
        ever = self.builders.sizes
        wanted = {name: size for name, size in ever.items() if self._is_wanted(name)}
        assert files == wanted, (sorted(files.keys() ^ wanted.keys()), self._clock.now)
        return sum(files.values())

    def _is_wanted(self, file: str) -> bool:
        return interval_of(file) in self.expected.landed

    def _require_versions(self, number: int) -> None:
        for name, generation in self.expected.used(self._clock.now):
            version = Version.open(self._folder.version(name, generation))
            if number % _WEEK == 0:
                version.verify()
        names = self._folder.intervals()
        readable = {name for name in names if self._folder.readable_generation(name)}
        assert self.expected.must_be_readable(number) <= readable
        assert readable <= self.expected.may_be_readable(self._clock.now)

    def _require_boundaries(self, number: int) -> None:
        """Look for the starts of all intervals that are left, and that old ones went.

        Days that were refused for good may still be planned, and keep theirs.
        """
        names = self._folder.intervals()
        left = {name for name in names if self._folder.readable_generation(name)}
        places = (self._folder.path / "boundaries").rglob("*Z.json")
        there = {f"{path.stem[:4]}-{path.stem[4:6]}-{path.stem[6:8]}" for path in places}
        assert left <= there
        assert len(there) <= 2 * len(left) + number // 5 + 4, (len(there), len(left))

    def measured(self, number: int, landing: int) -> Night:
        """Return what there is after a night, which takes a look at every file."""
        folders = [self._folder.path, self._sets.views.path]
        versions = copies = sum(size_of(folder / "versions") for folder in folders)
        if self._env.bucket is not None:
            bucket = Location.parse(self._env.bucket)
            places = [bucket / folder.name / "versions" for folder in folders]
            versions = sum(info.size_bytes for place in places for _, info in files_below(place))
        trainings = size_of(self._folder.path / "training")
        staged = size_of(self._folder.staging)
        return Night(
            number=number,
            landing=landing,
            landing_ever=sum(self.builders.sizes.values()),
            versions=versions,
            versions_ever=self.builders.published_bytes,
            trainings=trainings,
            work=size_of(Path(self._env.work)) + staged,
            records=sum(map(size_of, folders)) - copies - trainings - staged,
            removed=self.removed,
        )
