"""Rounds in which trainers, the master, or both are killed at random: no chunk is left out.

``make nightly-dispatch`` plays sixty rounds, ``make unit`` two.
"""

import fcntl
import os
import random
import signal
import sys
import termios
import threading
from collections import Counter

import pytest

from tests.unit.serving.dispatch.masters import end, forked, known
from trainfeed.errors import LoaderError
from trainfeed.serving.dispatch import MasterClient

pytestmark = pytest.mark.usefixtures("socket_enabled")

ROUNDS = int(os.environ.get("TEST_DISPATCH_ROUNDS", "2"))
KINDS = ("trainer", "master", "both")
KILLS = 6
TRAINERS = 3
# Permits for all samples that are read, some of them again; a pipe takes 65536.
ENOUGH = 50_000


class Permits:
    """Samples that the trainers may use, as bytes of a pipe: a killed trainer keeps no lock.

    A pass stays open until all kills are done, because permits are fewer than its samples.
    """

    def __init__(self):
        self._reader, self._writer = os.pipe()

    def grant(self, number):
        os.write(self._writer, bytes(number))

    def take(self):
        os.read(self._reader, 1)

    def left(self):
        return int.from_bytes(fcntl.ioctl(self._reader, termios.FIONREAD, bytes(4)), sys.byteorder)

    def close(self):
        os.close(self._reader)
        os.close(self._writer)


def train(place, tasks_per_lease, permits):
    """Read the pass, and note every sample that was used in a journal of this process."""
    journal = os.open(
        place.path / f"journal.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    try:
        for sample in place.reader(tasks_per_lease=tasks_per_lease)():
            permits.take()
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
        self.permits = Permits()
        self.master = place.start()
        self.trainers = [self.started() for _ in range(TRAINERS)]

    def started(self):
        return forked(train, self.place, self.random.randint(1, 6), self.permits)

    def play(self):
        total = len(self.place.expected())
        points = sorted(self.random.sample(range(1, total), KILLS))
        kinds = [*KINDS, *self.random.choices(KINDS, k=KILLS - len(KINDS))]
        self.random.shuffle(kinds)
        for before, point, kind in zip([0, *points], points, kinds, strict=False):
            self.permits.grant(point - before)
            self.await_use(self.random.randint(0, 3))
            self.kill(kind)
        self.permits.grant(ENOUGH)
        for trainer in self.trainers:
            trainer.join(120)
            assert trainer.exitcode == 0

    def await_use(self, left):
        """Wait until so many permits are left; trainers are at work then, or about to be."""
        while self.permits.left() > left and any(t.is_alive() for t in self.trainers):
            threading.Event().wait(0.002)

    def kill(self, what):
        """Kill, and count the kill if it struck a trainer that was alive, in a pass that was open.

        The pass is looked at after the kill: one that is open then was open before.
        """
        number = self.random.randrange(TRAINERS)
        victim = self.trainers[number]
        if what != "master":
            end(victim, signal.SIGKILL)
        is_struck = victim.is_alive() or victim.exitcode == -signal.SIGKILL
        if what != "trainer":
            end(self.master, signal.SIGKILL)
            is_struck = is_struck and self.master.exitcode == -signal.SIGKILL
            self.master = self.place.start()
        if is_struck and not self.status().is_over:
            self.kills[what] += 1
        if what != "master":
            self.trainers[number] = self.started()

    def status(self):
        with MasterClient(self.place.url, self.place.access) as client:
            return client.status()

    def stop(self):
        for process in (*self.trainers, self.master):
            end(process, signal.SIGKILL)
        self.permits.close()


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.ci) for seed in range(1, ROUNDS))]
)
def test_every_chunk_is_read_and_the_counts_agree_whatever_is_killed(place, seed):
    place.rules = {"lease_seconds": 0.5, "max_failures": 1000, "passes": 1}
    place.linger = 600.0
    played = Round(place, seed)
    try:
        played.play()
        report = played.status().current
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
    assert set(played.kills) == set(KINDS)
