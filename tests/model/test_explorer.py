"""The explorer finds what is planted: races, half files, dead locks, also on rare paths."""

import fcntl
import os

import pytest

from tests.model.interleavings.explore import Bound, Violation, explore
from tests.model.interleavings.trees import Tree


class Toy:
    """A scenario of plain functions over a folder."""

    def __init__(self, folder, files, *functions, end=lambda _: None):
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        self.folder, self.tree = folder, Tree(folder)
        self._functions, self._end = functions, end

    def actors(self):
        return [(f"actor {n}", function) for n, function in enumerate(self._functions)]

    def judge(self, actors):
        pass

    def judge_end(self, actors):
        self._end(actors)


def counter(folder, *, lock=False):
    def add():
        if not lock:
            return raised()
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            return raised()
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def raised():
        number = int((folder / "number").read_text())
        (folder / f"{os.urandom(16).hex()}.tmp").write_text(str(number + 1))
        (new,) = folder.glob("*.tmp")
        new.replace(folder / "number")

    return add


def is_two(folder):
    def judge(actors):
        crashed = sum(actor.outcome.crashed for actor in actors)
        assert int((folder / "number").read_text()) >= 2 - crashed

    return judge


def test_a_lost_update_is_found_and_its_schedule_told(tmp_path):
    folder = tmp_path / "toy"
    add = counter(folder)
    scenario = Toy(folder, {"number": "0"}, add, add, end=is_two(folder))
    with pytest.raises(Violation, match=r"actor 0 turn open number[\s\S]*actor 1 turn open number"):
        explore(scenario, Bound(preemptions=1, crashes=0))


def test_without_a_preemption_there_is_no_lost_update(tmp_path):
    folder = tmp_path / "toy"
    add = counter(folder)
    scenario = Toy(folder, {"number": "0"}, add, add, end=is_two(folder))
    assert explore(scenario, Bound(preemptions=0, crashes=0)).whole


def test_a_lock_prevents_it_and_a_crash_drops_the_lock(tmp_path):
    folder = tmp_path / "toy"
    add = counter(folder, lock=True)
    scenario = Toy(folder, {"number": "0"}, add, add)
    count = explore(scenario, Bound(preemptions=2, crashes=1))
    assert count.whole
    assert count.crashes > 0


def test_actors_that_wait_for_each_other_are_found(tmp_path):
    folder = tmp_path / "toy"

    def locker(*names):
        def take():
            fds = [os.open(folder / name, os.O_RDWR) for name in names]
            for fd in fds:
                fcntl.flock(fd, fcntl.LOCK_EX)
            for fd in fds:
                os.close(fd)

        return take

    scenario = Toy(folder, {"a": "", "b": ""}, locker("a", "b"), locker("b", "a"))
    with pytest.raises(Violation, match="wait for each other"):
        explore(scenario, Bound(preemptions=1, crashes=0))


def test_a_half_file_of_a_crash_is_found(tmp_path):
    folder = tmp_path / "toy"

    def write():
        (folder / "first").write_text("1")
        (folder / "second").write_text("2")

    def is_whole(actors):
        assert (folder / "first").exists() == (folder / "second").exists()

    scenario = Toy(folder, {}, write, end=is_whole)
    assert explore(scenario, Bound(crashes=0)).whole
    with pytest.raises(Violation, match="crash open second"):
        explore(scenario, Bound(crashes=1))


def test_finalizers_of_a_crashed_actor_remove_nothing(tmp_path):
    folder = tmp_path / "toy"

    def write():
        try:
            (folder / "unfinished").write_text("1")
            (folder / "finished").write_text("2")
        finally:
            (folder / "unfinished").unlink()

    left = []
    scenario = Toy(
        folder, {}, write, end=lambda _: left.append(sorted(p.name for p in folder.iterdir()))
    )
    explore(scenario, Bound(crashes=1))
    assert ["unfinished"] in left
    assert ["finished", "unfinished"] in left
    assert ["finished"] in left


def test_all_orders_of_independent_actors_are_one_state_each(tmp_path):
    folder = tmp_path / "toy"

    def writer(name):
        return lambda: (folder / name).write_text(name)

    scenario = Toy(folder, {}, *(writer(name) for name in "abc"))
    count = explore(scenario, Bound(preemptions=9, crashes=0))
    assert count.whole
    # Each of three actors stands before its only change, or is behind it.
    assert count.states == 2**3 - 1


def test_a_race_on_a_path_that_only_some_orders_take_is_found(tmp_path):
    folder = tmp_path / "toy"

    def follow():
        if (folder / "flag").exists():
            counter(folder)()

    def lead():
        number = int((folder / "number").read_text())
        (folder / "flag").write_text("")
        (folder / f"{os.urandom(16).hex()}.tmp").write_text(str(number + 1))
        (new,) = folder.glob("*.tmp")
        new.replace(folder / "number")

    def judge(actors):
        both = (folder / "flag").stat().st_size == 0 and actors[0].changes > 0
        assert not both or int((folder / "number").read_text()) == 2

    scenario = Toy(folder, {"number": "0"}, follow, lead, end=judge)
    with pytest.raises(Violation, match="turn open number"):
        explore(scenario, Bound(preemptions=2, crashes=0))
