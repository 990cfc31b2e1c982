"""Ranges of data sets whose schedule moves: a hole is never opened, a good range never refused."""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime

import pytest

from tests.model.published_ranges import HOURS, Life, hour_of, time_of
from trainfeed.core.intervals import range_text
from trainfeed.errors import ConfigError, WindowError
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.versions import DatasetFolder, cover

ROUNDS = int(os.environ.get("TEST_RANGE_ROUNDS", "60"))
STEPS = 26
_BLOCKS = 4


def answer(folder, text):
    """Return what readers get, and what is said about it."""
    try:
        found = cover(folder, text)
    except WindowError:
        return "refused", None
    except ConfigError:
        return "overlap", None
    return ("refused" if found.missing or not found.versions else "open"), found


def look(life, counts):
    """Compare some ranges with the oracle."""
    for _ in range(5):
        begin = int(life.rng.integers(HOURS // 24 - 1)) * 24
        if life.rng.random() < 0.2:
            begin += int(life.rng.integers(24))
        end = min(begin + int(life.rng.integers(1, 8)) * 24, HOURS)
        text = range_text(time_of(begin), time_of(end))
        if life.readable.get(text):
            continue  # the name of one version
        wanted = life.judged(begin, end)
        got, found = answer(life.folder, text)
        assert wanted in {None, got}, (text, wanted, got, found, life.recorded, life.log)
        counts[got] += 1
        if got == "open":
            names = [version.path.parent.name for version in found.versions]
            inside = [n for n, (s, _) in life.readable.items() if begin <= s < end]
            assert sorted(names) == sorted(inside)
            used = {each.range for each in found.accepted}
            needed = {
                text
                for (s, e), text in life.accepted.items()
                if set(range(max(s, begin), min(e, end))) - life.covered()
            }
            assert used == needed, (text, used, needed, life.log)
            counts["over an accepted hole"] += bool(used)
            counts["over a skipped interval"] += bool(found.skipped)


def look_at_status(life, tmp_path, counts):
    """Every hole between versions is in a line that is no version."""
    now = time_of(HOURS)
    attempts = Attempts(Location.parse(str(tmp_path / "work")), now)
    found = dataset_status(life.folder, datasets=None, attempts=attempts, now=now)
    told = set()
    for each in found.intervals:
        if each.generation is None:
            start = hour_of(datetime.fromtimestamp(each.start, now.tzinfo))
            end = hour_of(datetime.fromtimestamp(each.end, now.tzinfo))
            told |= set(range(start, end))
    for start, end in life.holes():
        assert set(range(start, end)) <= told, (start, end, found.intervals, life.log)
        counts["holes in status"] += 1


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(n, marks=pytest.mark.ci) for n in range(1, _BLOCKS))]
)
def test_a_hole_is_never_opened_and_a_range_without_one_never_refused(tmp_path, block):
    counts = Counter()
    for seed in range(block, ROUNDS, _BLOCKS):
        life = Life(DatasetFolder(tmp_path / str(seed), "clicks"), seed)
        life.folder.path.mkdir(parents=True)
        for step in range(STEPS):
            life.act()
            if step >= STEPS // 2 and step % 3 == 0:
                look(life, counts)
        look_at_status(life, tmp_path, counts)
    assert counts["open"]
    assert counts["refused"]
