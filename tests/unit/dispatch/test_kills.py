"""Rounds in which trainers, the master, or both are killed at random: no chunk is left out.

``make nightly-dispatch`` plays sixty rounds, ``make unit`` two.
"""

import os
import random
import signal
import threading
from collections import Counter

import pytest

from tests.unit.dispatch.masters import end, forked, known
from trainfeed.dispatch import MasterClient
from trainfeed.errors import LoaderError

pytestmark = pytest.mark.usefixtures("socket_enabled")

ROUNDS = int(os.environ.get("TEST_DISPATCH_ROUNDS", "2"))
KILLS = 6
TRAINERS = 3


def train(place, tasks_per_lease):
    """Read the pass, and note every sample that was used in a journal of this process."""
    journal = os.open(
        place.path / f"journal.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    try:
        for sample in place.reader(tasks_per_lease=tasks_per_lease)():
            value, label = known(sample)
            os.write(journal, f"{value!r} {label}\n".encode())
    except LoaderError as error:
        # A trainer that comes after the end of the only pass; the process fails otherwise.
        if "has ended all of its 1" not in str(error):
            raise


def used(place):
    """How often each sample was used, by all trainers that ever were."""
    found = Counter()
    for journal in place.path.glob("journal.*"):
        # A line that a kill tore was not used.
        for line in journal.read_text().split("\n")[:-1]:
            value, label = line.split()
            found[float(value), int(label)] += 1
    return found


class Round:
    """One pass of three trainers under kills."""

    def __init__(self, place, seed):
        self.place = place
        self.random = random.Random(seed)
        self.kills = Counter()
        self.master = place.start()
        self.trainers = [self.started() for _ in range(TRAINERS)]

    def started(self):
        return forked(train, self.place, self.random.randint(1, 6))

    def play(self):
        total = len(self.place.expected())
        points = sorted(self.random.sample(range(1, total), KILLS))
        for point in points:
            while used(self.place).total() < point and any(t.is_alive() for t in self.trainers):
                threading.Event().wait(0.002)
            self.kill(self.random.choice(["trainer", "master", "both"]))
        for trainer in self.trainers:
            trainer.join(120)
            assert trainer.exitcode == 0

    def kill(self, what):
        self.kills[what] += 1
        if what != "master":
            number = self.random.randrange(TRAINERS)
            end(self.trainers[number], signal.SIGKILL)
            self.trainers[number] = self.started()
        if what != "trainer":
            end(self.master, signal.SIGKILL)
            self.master = self.place.start()

    def stop(self):
        for process in (*self.trainers, self.master):
            end(process, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_every_chunk_is_read_and_the_counts_agree_whatever_is_killed(place, seed):
    place.rules = {"lease_seconds": 0.5, "max_failures": 1000, "passes": 1}
    place.linger = 600.0
    played = Round(place, seed)
    try:
        played.play()
        with MasterClient(place.url, place.access) as client:
            report = client.status().current
    finally:
        played.stop()
    assert (report.done, report.failed) == (place.tasks().num_tasks, 0)
    assert report.leases == report.done + report.timeouts + report.failures + report.returns
    assert report.failures == 0
    expected, found = Counter(place.expected()), used(place)
    assert not expected - found
    # What was read more than once belongs to leases that ran out.
    tasks = place.tasks()
    largest = max(
        span.chunk.info.num_records for n in range(tasks.num_tasks) for span in tasks.chunks(n)
    )
    assert found.total() - expected.total() <= report.timeouts * largest
    assert played.kills.total() == KILLS
