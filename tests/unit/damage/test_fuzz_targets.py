"""A short form of ``make nightly-fuzz``: each target with some hundred changed files.

An exception that is none of ours fails, and so does what a target asserts.
"""

from __future__ import annotations

import random
import zlib

import pytest

from tests.fuzz.catalogue import ALL_SEEDS, ALL_TARGETS, mutate
from trainfeed.errors import TrainFeedError

COUNT = 120
# Those that convert take some milliseconds, and syncs of a disk, for every input.
FEW = {"any_file": 15, "base64_rows": 15, "base64_list": 15}


def changed_at_random(data, seed):
    """Change some bytes: bits, values, a piece lost or doubled."""
    chance, changed = random.Random(seed), bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        end = min(len(changed), place + chance.choice((1, 2, 4, 8, 32)))
        what = chance.randrange(4)
        if what == 0:
            changed[place:end] = chance.randbytes(end - place)
        elif what == 1:
            changed[place:end] = bytes([chance.choice((0, 1, 0x7F, 0xFF))]) * (end - place)
        elif what == 2:
            del changed[place:end]
        else:
            changed[place:place] = changed[place:end]
    return bytes(changed)


@pytest.mark.parametrize("name", ALL_TARGETS)
def test_a_changed_file_is_read_or_refused_with_an_error_of_ours(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seeds, first = ALL_SEEDS[name](), zlib.crc32(name.encode())
    for number in range(FEW.get(name, COUNT)):
        data = mutate(name, seeds[number % len(seeds)], first + number, changed_at_random)
        try:
            ALL_TARGETS[name](data)
        except TrainFeedError:
            pass
        except Exception as error:
            raise AssertionError(f"number {number}, {data!r}") from error


@pytest.mark.parametrize("name", ALL_TARGETS)
def test_what_fuzzing_begins_with_reaches_the_end_of_a_target(name):
    ends = 0
    for data in ALL_SEEDS[name]():
        try:
            ALL_TARGETS[name](data)
        except TrainFeedError:
            continue
        ends += 1
    assert ends
