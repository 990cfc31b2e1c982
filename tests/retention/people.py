"""What people and readers do on some nights, and what came of it for the model."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tests.retention.builders import Builders
from tests.retention.clock import Clock
from tests.retention.days import is_bad, name_of, number_of
from tests.retention.expected import DOUBT, Expected, Reader
from tests.retention.two_sets import TwoSets
from trainfeed.core.accounts import Decision
from trainfeed.errors import JobFailedError
from trainfeed.pipeline.waivers import WaiverWish, waivable, waive
from trainfeed.training.launch import train
from trainfeed.upkeep.withdrawal import Maker, withdraw
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.tag import apply_change, propose_tag, untag

_LEASE: Final = timedelta(days=7)
_TAG_NIGHTS: Final = 50
_WAITING_NIGHTS: Final = 10
_REBUILT_NIGHTS: Final = 5
_WAIVED_NIGHTS: Final = 6
_TRAINING_NIGHTS: Final = 20


class People:
    """The people of both data sets.

    Args:
        sets: The data sets.
        builders: Builds intervals.
        expected: The model.
        clock: The time.
        seed: Decides who does what when.
    """

    def __init__(
        self, sets: TwoSets, builders: Builders, expected: Expected, clock: Clock, seed: int
    ) -> None:
        self._sets, self._builders, self._expected, self._clock = sets, builders, expected, clock
        self._random = random.Random(seed)
        self._folder = sets.project.folder
        self.counts: Counter[str] = Counter()

    @property
    def state(self) -> Any:
        """The state of chance, as JSON can hold it."""
        return self._random.getstate()

    def go_on(self, state: Any, counts: dict[str, int]) -> None:
        """Go on with the state and the counts of an earlier part."""
        version, words, gauss = state
        self._random.setstate((version, tuple(words), gauss))
        self.counts.update(counts)

    def hold_again(
        self, used: list[tuple[str, int]], until: int, ends: datetime, *, is_killed: bool
    ) -> None:
        """Take the lease of a reader again, renewed when it was; its process ended with a part.

        One that ended before is not taken: its versions may be gone.
        """
        if self._clock.now < ends + DOUBT:
            self._hold(used, until, ends, is_killed=is_killed)

    def act(self, number: int) -> None:
        """Begin uses and corrections by chance, and end those whose time is over."""
        past, sets = name_of(self._random.choice(self._ordinary(number))), self._sets
        by_chance = (
            (0.08, "rebuilds", lambda: self._builders.build(past, rebuild=f"night {number}")),
            (0.05, "tags", lambda: self._tag(past, number)),
            (0.10 * (sets.env.bucket is None), "leases", lambda: self._lease(past, number)),
            (0.05, "builds that stopped", lambda: self._stop_a_build(past, number)),
        )
        for chance, what, action in by_chance:
            if self._random.random() < chance:
                self.counts[what] += 1
                action()
        self._end_uses(number)
        self._go_on(number)
        if self._random.random() < 0.06 and self._may_be_withdrawn(past):
            self._withdraw(past)

    def train(self, number: int) -> None:
        """Train on the last two days; every third training ends without a result."""
        window = [name_of(number - 1), name_of(number)]
        if None in map(self._folder.readable_generation, window):
            return
        self.counts["trainings"] += 1
        if number // 14 % 3 != 1:
            self._train(number)
            return
        self.counts["trainings that failed"] += 1
        self._sets.broken.touch()
        try:
            self._train(number)
        except JobFailedError:
            self._expected.trainings[number] = self._versions(number)
        else:
            raise AssertionError(f"the training of night {number} was to fail")
        finally:
            self._sets.broken.unlink()

    def _ordinary(self, number: int) -> list[int]:
        """Return the days about which people decide: those that readers get and no gate refuses."""
        days = range(max(0, number - 100), number + 1)
        return [
            each
            for each in days
            if not is_bad(each) and self._expected.published[name_of(each)].withdrawn is None
        ]

    def _tag(self, name: str, number: int) -> None:
        tag, version = f"t{number}", (name, self._expected.published[name].generation)
        change = propose_tag(self._folder, name, tag, Decision.now("evaluated"))
        apply_change(self._folder, change)
        self._expected.tags[tag] = number, version

    def _lease(self, name: str, number: int) -> None:
        used = [(name, self._expected.published[name].generation)]
        until, is_killed = number + self._random.randrange(1, 30), self._random.random() < 0.3
        self.counts["readers that were killed"] += is_killed
        self._hold(used, until, self._clock.now + _LEASE, is_killed=is_killed)

    def _hold(
        self, used: list[tuple[str, int]], until: int, ends: datetime, *, is_killed: bool
    ) -> None:
        held = hold_versions(
            self._folder, used, "a reader", length=_LEASE, clock=lambda: self._clock.now
        )
        renewed = (ends - _LEASE).timestamp()
        os.utime(held.path, (renewed, renewed))
        self._expected.readers.append(Reader(held, until, is_killed, ends))

    def _stop_a_build(self, name: str, number: int) -> None:
        self._builders.stop_a_build(name, rebuild=f"try {number}")
        self._expected.waiting.setdefault(name, number)

    def _may_be_withdrawn(self, name: str) -> bool:
        return name not in self._expected.waiting and self._folder.generations(name) == [1]

    def _withdraw(self, name: str) -> None:
        """Withdraw what readers get; sometimes a tag, a lease or a training names it."""
        self.counts["withdrawals"] += 1
        newest = self._expected.published[name]
        version = name, newest.generation
        self.counts["withdrawals of what is in use"] += version in self._expected.used(
            self._clock.now
        )
        maker = Maker("a person", "test", "wrong values")
        with self._clock.of_withdrawals():
            withdraw(self._sets.env, "clicks", name, newest.generation, maker)
        newest.withdrawn = self._clock.now

    def _end_uses(self, number: int) -> None:
        for tag, (since, _) in list(self._expected.tags.items()):
            if number - since > _TAG_NIGHTS:
                untag(self._folder, tag, Decision.now("no longer needed"))
                del self._expected.tags[tag]
        for reader in list(self._expected.readers):
            if reader.is_killed:
                continue
            if number > reader.until:
                reader.held.release()
                self._expected.readers.remove(reader)
            else:
                reader.held.renew()
                reader.ends = self._clock.now + _LEASE

    def _go_on(self, number: int) -> None:
        """Let people clear, waive, and build again what stopped, was refused or withdrawn."""
        for name, since in list(self._expected.waiting.items()):
            if number - since > _WAITING_NIGHTS:
                self._builders.build(name, rebuild=f"try {since}")
        for name, newest in list(self._expected.published.items()):
            day = number_of(name)
            # Half of what was withdrawn is never built again.
            if newest.withdrawn and day % 2 and self._nights(newest.withdrawn) > _REBUILT_NIGHTS:
                self._builders.build(name, rebuild=f"as it was, night {number}")
        for name, at in list(self._expected.refused.items()):
            if number_of(name) % 2 and self._nights(at) == _WAIVED_NIGHTS:
                self._waive(name)
        for since in list(self._expected.trainings):
            if number - since > _TRAINING_NIGHTS:
                self._end_training(since)

    def _nights(self, since: datetime) -> int:
        return (self._clock.now - since).days

    def _waive(self, name: str) -> None:
        """Let the day pass; only this clock is the real one, as that of the stage ``check``."""
        self.counts["waivers"] += 1
        now = datetime.now(UTC)
        wish = WaiverWish("a person", "test", "the value is real", now + timedelta(days=1))
        waive(self._sets.env, waivable(self._folder, name), wish, now)
        self._builders.build(name)

    def _train(self, number: int) -> None:
        project = self._sets.project
        try:
            train(project.spec, project.env, project.interval(name_of(number)))
        finally:
            self._clock.stamp([self._folder.path / "training" / name_of(number)])

    def _versions(self, number: int) -> list[tuple[str, int]]:
        names = [name_of(number - 1), name_of(number)]
        return [(name, self._expected.published[name].generation) for name in names]

    def _end_training(self, since: int) -> None:
        """Run the training again; if readers get other versions by now, a person removes it."""
        versions = self._expected.trainings.pop(since)
        readable = [(name, self._folder.readable_generation(name)) for name, _ in versions]
        if readable == versions:
            self._train(since)
        else:
            self.counts["trainings that were removed"] += 1
            shutil.rmtree(Path(self._folder.path / "training" / name_of(since)))
