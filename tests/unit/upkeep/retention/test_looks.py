"""How often a run of retention looks at the file system: on CephFS this is how long it takes."""

import os
from collections import Counter

import pytest

from tests.retention.clock import Clock
from tests.retention.nights import Nights
from tests.retention.two_sets import Rules
from trainfeed.upkeep.retention import Context, prune, scheduled_kinds

# With landing files on a local disk, where the size of each is a look of its own.
MOST = 15
LOOKS = ("stat", "lstat", "listdir", "scandir", "open", "readlink", "access")


@pytest.fixture
def looks(monkeypatch):
    """Counts the looks at the publication root, the landing area and the work folder."""
    found = Counter()

    def counted(name):
        look = getattr(os, name)

        def counting(*arguments, **named):
            found[name] += 1
            return look(*arguments, **named)

        return counting

    for name in LOOKS:
        monkeypatch.setattr(os, name, counted(name))
    return found


def number_of_looks(project, night, looks):
    spec, clock = project.spec, Clock()
    clock.set_night(night)
    looks.clear()
    context = Context.of(spec, project.env, now=clock.now)
    assert not prune(context, scheduled_kinds(spec)).expired
    return looks.total()


def test_a_run_looks_a_few_times_at_each_interval(project, looks):
    nights = Nights(project, 3, Rules(), with_training=False)
    nights.prepare(9)
    numbers = {
        night.number + 1: number_of_looks(project, night.number, looks) for night in nights.play(9)
    }
    for_each = (numbers[9] - numbers[3]) / 6
    assert 5 < for_each <= MOST, numbers


def test_a_later_look_has_seen_nothing_of_the_one_before(project):
    project.prebuilt()
    context = Context.of(project.spec, project.env)
    assert context.look.generations("2024-03-01") == [1]
    project.prebuilt(rebuild="another order")
    assert context.look.generations("2024-03-01") == [1]
    again = context.again()
    assert again.look.generations("2024-03-01") == [1, 2]
    assert len(again.look.plan_ids("2024-03-01")) == 2
    assert context.folder.generations("2024-03-01") == [1, 2]
