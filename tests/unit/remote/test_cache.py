"""The cache: bounded at every line, shared by processes, and as good as its order allows."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainfeed.errors import ConfigError, FormatError
from trainfeed.remote import cache as cache_module
from trainfeed.remote.cache import ChunkCache, Claim, cache_at
from trainfeed.remote.plans import NextUses, Plan

BLOCK = 4096
NAME = "a" * 32


def plan_of(uses, start=0, name=NAME, count=None, unit_bytes=1.0):
    chunks = np.array(uses, np.int64)
    count = int(chunks.max(initial=0)) + 1 if count is None else count
    positions = np.arange(start, start + len(chunks))
    return Plan(((name, count),), positions, chunks, unit_bytes)


def fetch(cache, part, chunk, size=BLOCK, distance=None):
    """Read a chunk; return whether it was there."""
    fd = cache.open(part, chunk)
    if fd is not None:
        os.close(fd)
        return True
    claim = cache.claim(part, chunk)
    assert isinstance(claim, Claim)
    if cache.reserve(claim, size, distance):
        assert cache.keep(claim, memoryview(bytes([chunk % 256]) * size))
    else:
        cache.give_up(claim)
    return False


def files_in(folder):
    return sorted(int(path.name) for path in (folder / "parts").glob("*/[0-9]*"))


def size_of(folder):
    return sum(path.stat().st_size for path in (folder / "parts").glob("*/[0-9]*"))


def best_hits(uses, room):
    """The most hits that any order of evictions gives: what is needed last goes (Belady)."""
    kept, hits = set(), 0
    for place, chunk in enumerate(uses):
        rest = uses[place + 1 :]
        if chunk in kept:
            hits += 1
            continue
        if len(kept) == room:
            kept.remove(max(kept, key=lambda c: rest.index(c) if c in rest else len(uses)))
        kept.add(chunk)
    return hits


@pytest.mark.parametrize(("count", "room"), [(20, 5), (30, 29), (12, 1), (9, 9)])
@pytest.mark.parametrize("seed", [0, 1])
def test_hits_are_those_of_the_best_order_of_evictions(tmp_path, monkeypatch, count, room, seed):
    # A cache for one chunk at a time is refused for a set; the rule holds all the same.
    generator = np.random.default_rng(seed)
    epochs = [generator.permutation(count).tolist() for _ in range(4)]
    uses = [chunk for epoch in epochs for chunk in epoch]
    cache = ChunkCache(tmp_path / "cache", room * BLOCK)
    part, reader = cache.part(NAME, count), cache.reader()
    hits = 0
    for place, chunk in enumerate(uses):
        reader.now = place
        if place % count == 0:
            rows = uses[place : place + 2 * count]
            reader.publish(plan_of(rows, place, count=count))
        hit = (fd := cache.open(part, chunk)) is not None
        hits += hit
        reader.now = place + 1
        if hit:
            os.close(fd)
        else:
            fetch(cache, part, chunk)
        assert cache.used_bytes == size_of(tmp_path / "cache") <= room * BLOCK
    assert hits == best_hits(uses, room)
    reader.close()
    cache.close()


def test_what_another_reader_needs_soon_stays(tmp_path):
    cache = ChunkCache(tmp_path / "cache", 3 * BLOCK)
    part = cache.part(NAME, 5)
    mine, other = cache.reader(), cache.reader()
    mine.publish(plan_of([0, 1, 2, 3, 4, 0]))
    other.publish(plan_of([1, 0, 0], count=5))
    for chunk in (0, 1, 2):
        fetch(cache, part, chunk)
        mine.now = chunk + 1
    # By its own plan alone 1 and 2 are never needed again, and 1 is the other one's next.
    fetch(cache, part, 3)
    assert files_in(tmp_path / "cache") == [0, 1, 3]
    other.close()
    mine.now = 4
    fetch(cache, part, 4)
    assert 0 in files_in(tmp_path / "cache")
    mine.close()
    cache.close()


def test_distances_of_readers_are_compared_in_bytes(tmp_path):
    cache = ChunkCache(tmp_path / "cache", 2 * BLOCK)
    one, two = cache.part("b" * 32, 2), cache.part("c" * 32, 2)
    slow, fast = cache.reader(), cache.reader()
    slow.publish(plan_of([1, 1, 1, 0], name="b" * 32, unit_bytes=1.0))
    fast.publish(plan_of([1, 1, 0], name="c" * 32, unit_bytes=10.0))
    fetch(cache, one, 0)
    fetch(cache, two, 0)
    fetch(cache, one, 1)
    assert Path(one.path(0)).exists()
    assert not Path(two.path(0)).exists()
    for each in (slow, fast):
        each.close()
    cache.close()


def test_chunks_that_nobody_plans_to_read_go_first_by_the_age_of_their_part(tmp_path):
    cache = ChunkCache(tmp_path / "cache", 3 * BLOCK)
    parts = [cache.part(letter * 32, 2) for letter in "bcd"]
    for number, part in enumerate(parts):
        fetch(cache, part, 0)
        os.utime(part.folder, ns=(0, number))
    reader = cache.reader()
    reader.publish(plan_of([1, 0], name="b" * 32))
    fetch(cache, parts[0], 1)
    assert [Path(part.path(0)).exists() for part in parts] == [True, False, True]
    reader.close()
    cache.close()


def test_what_is_fetched_ahead_evicts_nothing_that_is_needed_sooner(tmp_path):
    cache = ChunkCache(tmp_path / "cache", 2 * BLOCK)
    part, reader = cache.part(NAME, 4), cache.reader()
    reader.publish(plan_of([0, 1, 2, 3]))
    fetch(cache, part, 0, distance=0.0)
    fetch(cache, part, 1, distance=1.0)
    fetch(cache, part, 2, distance=2.0)
    assert files_in(tmp_path / "cache") == [0, 1]
    reader.now = 1
    fetch(cache, part, 2, distance=1.0)
    assert files_in(tmp_path / "cache") == [1, 2]
    reader.close()
    cache.close()


def test_distances_follow_the_position_over_repeated_uses():
    uses = NextUses(plan_of([0, 1, 0, 2, 1], unit_bytes=2.0, count=4))
    infinite = np.inf
    assert uses.distances(0).tolist() == [0, 2, 6, infinite]
    assert uses.distances(1).tolist() == [2, 0, 4, infinite]
    assert uses.distances(3).tolist() == [infinite, 2, 0, infinite]
    assert uses.distances(5).tolist() == [infinite] * 4


@pytest.mark.parametrize("data", [b"", b"{}\n", b'{"parts": [["a", 1]], "rows": 2, "x": 1}\n1'])
def test_a_file_that_is_no_plan_is_an_error(data):
    with pytest.raises(FormatError):
        Plan.from_bytes(data, "p")


def test_a_plan_of_chunks_that_its_parts_lack_is_an_error():
    data = plan_of([0, 7], count=3).to_bytes()
    with pytest.raises(FormatError, match="chunks of its parts"):
        Plan.from_bytes(data, "p")


def test_one_process_fetches_and_the_others_wait_for_it(tmp_path):
    first, second = (ChunkCache(tmp_path / "cache", 8 * BLOCK) for _ in range(2))
    part, other = first.part(NAME, 2), second.part(NAME, 2)
    claim = first.claim(part, 1)
    assert isinstance(claim, Claim)
    assert second.claim(other, 1) is False
    assert first.reserve(claim, 10)
    first.keep(claim, memoryview(b"0123456789"))
    assert second.claim(other, 1) is True
    assert Path(other.path(1)).read_bytes() == b"0123456789"
    assert not list(part.folder.glob("*.part"))
    for cache in (first, second):
        cache.close()


def test_a_claim_that_is_given_up_is_free_again(tmp_path):
    cache = ChunkCache(tmp_path / "cache", 8 * BLOCK)
    part = cache.part(NAME, 1)
    claim = cache.claim(part, 0)
    assert cache.reserve(claim, 5000)
    assert cache.used_bytes == 2 * BLOCK
    cache.give_up(claim, 5000)
    assert cache.used_bytes == 0
    again = cache.claim(part, 0)
    assert isinstance(again, Claim)
    cache.give_up(again)
    cache.close()


def test_an_evicted_chunk_stays_readable_for_who_has_it_open(tmp_path):
    cache = ChunkCache(tmp_path / "cache", BLOCK)
    part = cache.part(NAME, 2)
    fetch(cache, part, 0)
    fd = cache.open(part, 0)
    fetch(cache, part, 1)
    assert cache.open(part, 0) is None
    assert os.pread(fd, BLOCK, 0) == bytes(BLOCK)
    os.close(fd)
    cache.close()


VICTIM = """
import sys
from pathlib import Path
from trainfeed.remote.cache import ChunkCache
cache = ChunkCache(Path(sys.argv[1]), 3 * 4096)
part = cache.part("a" * 32, 9)
for chunk in range(9):
    claim = cache.claim(part, chunk)
    if not isinstance(claim, bool):
        assert cache.reserve(claim, 4000)
        cache.keep(claim, memoryview(bytes([chunk]) * 4000))
"""
POINTS = ["counted", "reserved", "written", "marked", "named", "evicted"]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_every_point_leaves_whole_chunks_within_the_bound(tmp_path, point):
    folder = tmp_path / "cache"
    environ = os.environ | {"TRAINFEED_FAULTS": f"cache.{point}:kill"}
    victim = subprocess.run([sys.executable, "-c", VICTIM, folder], env=environ, check=False)
    assert victim.returncode == -signal.SIGKILL
    left = size_of(folder)
    state = np.fromfile(folder / "state", "<i8")
    assert left <= state[2] <= 3 * BLOCK
    cache = ChunkCache(folder, 3 * BLOCK)
    part = cache.part(NAME, 9)
    assert not list(part.folder.glob("*.part"))
    assert cache.used_bytes == len(files_in(folder)) * BLOCK
    for chunk in files_in(folder):
        assert Path(part.path(chunk)).read_bytes() == bytes([chunk]) * 4000
    assert len(list((folder / "readers").iterdir())) == 1
    for chunk in range(9):
        fetch(cache, part, chunk)
        assert cache.used_bytes <= 3 * BLOCK
    cache.close()
    assert list((folder / "readers").iterdir()) == []


def test_a_process_that_lives_sees_the_kill_of_another_when_it_needs_room(tmp_path):
    folder = tmp_path / "cache"
    cache = ChunkCache(folder, 3 * BLOCK)
    part = cache.part(NAME, 9)
    environ = os.environ | {"TRAINFEED_FAULTS": "cache.counted:kill"}
    subprocess.run([sys.executable, "-c", VICTIM, folder], env=environ, check=False)
    assert cache.used_bytes == BLOCK
    for chunk in range(1, 6):
        fetch(cache, part, chunk)
    assert cache.used_bytes == size_of(folder) == 3 * BLOCK
    cache.close()


def test_two_processes_at_once_stay_within_the_bound(tmp_path):
    folder = tmp_path / "cache"
    others = [subprocess.Popen([sys.executable, "-c", VICTIM, folder]) for _ in range(3)]
    assert [other.wait() for other in others] == [0, 0, 0]
    assert np.fromfile(folder / "state", "<i8")[2] == len(files_in(folder)) * BLOCK <= 3 * BLOCK


def test_a_full_disk_is_logged_once_and_the_bytes_are_read_all_the_same(
    tmp_path, monkeypatch, caplog
):
    cache = ChunkCache(tmp_path / "cache", 8 * BLOCK)
    part = cache.part(NAME, 4)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module.os, "pwrite", full)
    for chunk in range(2):
        claim = cache.claim(part, chunk)
        assert cache.reserve(claim, 10)
        assert not cache.keep(claim, memoryview(b"0123456789"))
    monkeypatch.undo()
    assert cache.used_bytes == 0
    assert files_in(tmp_path / "cache") == []
    assert len([r for r in caplog.records if "was not kept" in r.message]) == 1
    cache.close()


def test_a_folder_with_other_files_is_no_cache(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="holds other files"):
        ChunkCache(tmp_path, BLOCK)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_cache_in_use_keeps_its_bound(tmp_path):
    cache = ChunkCache(tmp_path, 8 * BLOCK)
    with pytest.raises(ConfigError, match="others use the cache"):
        ChunkCache(tmp_path, 9 * BLOCK)
    cache.close()
    cache = ChunkCache(tmp_path, 9 * BLOCK)
    assert cache_at(tmp_path, 9 * BLOCK) is not cache
    cache.close()


def test_a_smaller_bound_evicts_with_the_next_chunk(tmp_path):
    cache = ChunkCache(tmp_path, 4 * BLOCK)
    for chunk in range(4):
        fetch(cache, cache.part(NAME, 5), chunk)
    cache.close()
    cache = ChunkCache(tmp_path, 2 * BLOCK)
    fetch(cache, cache.part(NAME, 5), 4)
    assert cache.used_bytes == size_of(tmp_path) == 2 * BLOCK
    cache.close()


def test_a_cache_too_small_for_a_set_is_refused(tmp_path):
    cache = ChunkCache(tmp_path, 4 * BLOCK)
    with pytest.raises(ConfigError, match="at least 4 chunks"):
        cache.part(NAME, 5, BLOCK + 1)
    cache.close()


def test_a_part_of_another_size_is_refused(tmp_path):
    cache = ChunkCache(tmp_path, 4 * BLOCK)
    cache.part(NAME, 5)
    with pytest.raises(FormatError, match="has 5"):
        cache.part(NAME, 6)
    cache.close()


def test_a_cache_of_a_newer_format_is_refused(tmp_path):
    ChunkCache(tmp_path, BLOCK).close()
    state = np.fromfile(tmp_path / "state", "<i8")
    state[0] = 2
    state.tofile(tmp_path / "state")
    with pytest.raises(ConfigError, match="newer trainfeed"):
        ChunkCache(tmp_path, BLOCK)


def test_a_fork_opens_the_cache_anew_and_leaves_the_files_of_its_parent(tmp_path):
    cache = cache_at(tmp_path, BLOCK)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            is_old = cache.is_usable
            again = cache_at(tmp_path, BLOCK)
            again.close()
            code = 2 if is_old else 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(list((tmp_path / "readers").iterdir())) == 1
    cache.close()
