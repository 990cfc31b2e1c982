"""A loader over a set at a store: the same batches, every chunk once, resumed and repaired."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.unit.loader.conftest import nothing_left
from tests.unit.remote.stores import AfarImages
from trainfeed.errors import ChecksumError, StorageError
from trainfeed.loader import DataLoader
from trainfeed.remote.cache import cache_at
from trainfeed.remote.shards import CachePlace

__all__ = ["nothing_left"]


def read(dataset, *, epochs=1, state=None, **options):
    options = {"batch_size": 7, "shuffle": True, "lanes": 4, "window_bytes": 200_000} | options
    if not options["shuffle"]:
        options.pop("lanes")
    with DataLoader(dataset, **options) as loader:
        if state is not None:
            loader.load_state_dict(state)
        for _ in range(epochs):
            for batch in loader:
                yield {name: np.array(each) for name, each in batch.items()}, loader.state_dict()


def labels(batches):
    return [label for batch, _ in batches for label in batch["label"].tolist()]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"num_threads": 2}, {"num_workers": 2}, {"rank": 1, "world_size": 2}]
)
def test_batches_and_states_are_those_of_the_files_themselves(afar, shuffle, options):
    options = options | {"shuffle": shuffle}
    expected = list(read(afar.files, epochs=2, **options))
    found = list(read(AfarImages(afar), epochs=2, **options))
    assert [state for _, state in found] == [state for _, state in expected]
    for (one, _), (other, _) in zip(found, expected, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"num_workers": 2}])
def test_what_fits_is_fetched_once_for_all_epochs(afar, options):
    list(read(AfarImages(afar), epochs=3, **options))
    counted = Counter((name, start) for _, name, start, _ in afar.reads())
    assert len(counted) == 35
    assert set(counted.values()) == {1}


def test_another_loader_finds_what_the_first_has_fetched(afar):
    list(read(AfarImages(afar)))
    afar.forget()
    list(read(AfarImages(afar), seed=9))
    assert afar.reads() == []


@pytest.mark.parametrize("batches", [1, 5, 14])
def test_a_state_goes_on_at_a_store_where_the_files_left_off(afar, batches):
    expected = list(read(afar.files, epochs=2))
    states = [state for _, state in expected]
    found = labels(read(AfarImages(afar), epochs=2, state=states[batches]))
    rest = [label for batch, _ in expected[batches + 1 :] for label in batch["label"].tolist()]
    # The rest of the first epoch, and one more whole epoch.
    assert found[: len(rest)] == rest[: len(found)]


def test_a_store_that_fails_for_a_moment_is_asked_again(afar):
    (afar.folder / "wrong-fail").touch()
    with DataLoader(AfarImages(afar), batch_size=7) as loader:
        assert sum(batch.num_rows for batch in loader) == 100


def test_bytes_that_came_damaged_are_fetched_once_more(afar):
    (afar.folder / "wrong-flip").touch()
    found = list(read(AfarImages(afar)))
    assert sorted(labels(found)) == list(range(100))
    assert len(afar.reads()) == 36


def test_bytes_that_stay_damaged_are_named_with_their_place(afar):
    path = Path(afar.files.paths[1])
    data = bytearray(path.read_bytes())
    shards = afar.shards()
    bad = np.flatnonzero(shards.table.shard == 1)[2]
    offset = int(shards.table.offset_bytes[bad])
    data[offset + 1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ChecksumError, match="fetched twice") as caught:
        list(read(AfarImages(afar), shuffle=False))
    assert caught.value.path == f"file://{path}"
    assert caught.value.offset_bytes == offset
    assert not list((afar.place.folder / "parts").rglob("*.part"))


def test_a_chunk_that_is_damaged_on_the_local_disk_is_fetched_again(afar):
    list(read(AfarImages(afar)))
    afar.forget()
    damaged = sorted((afar.place.folder / "parts" / ("0" * 32)).glob("1*"))[:3]
    for path in damaged:
        data = bytearray(path.read_bytes())
        data[500] ^= 1
        path.write_bytes(data)
    assert sorted(labels(read(AfarImages(afar)))) == list(range(100))
    assert len(afar.reads()) == 3


def test_a_chunk_that_was_cut_on_the_local_disk_is_fetched_again(afar):
    list(read(AfarImages(afar)))
    afar.forget()
    os.truncate(afar.place.folder / "parts" / ("0" * 32) / "7", 100)
    assert sorted(labels(read(AfarImages(afar)))) == list(range(100))
    assert len(afar.reads()) == 1


def test_a_store_that_stays_away_is_an_error(afar, monkeypatch):
    source = afar.shards(deadline_s=0)
    monkeypatch.setattr(
        type(source._stores), "read", lambda *_: (_ for _ in ()).throw(StorageError("away"))
    )
    with pytest.raises(StorageError, match="away"):
        source.view(0, int(source.table.offset_bytes[0]), 10)
    source.close()


def test_a_fetch_that_comes_too_late_is_left_out(afar):
    """A thread was held up, and others have fetched, read and evicted its chunk meanwhile."""
    shards = afar.shards()
    assert shards.fetch_ahead(3, lambda: -1.0)
    assert afar.reads() == []
    assert shards.fetch_ahead(3, lambda: 0.0)
    assert len(afar.reads()) == 1
    shards.close()


def test_with_a_quarter_of_the_set_a_second_epoch_hits_what_fits(afar):
    # Room for 8 chunks of 16 KiB; a chunk is fetched into the place of the one needed last.
    afar.place = CachePlace(afar.place.folder, 8 * 16384)
    reads: list[list[tuple[str, ...]]] = []
    with DataLoader(
        AfarImages(afar), batch_size=3, shuffle=True, lanes=1, window_bytes=26_000
    ) as loader:
        for _ in range(4):
            afar.forget()
            assert sum(batch.num_rows for batch in loader) == 100
            reads.append(afar.reads())
        assert cache_at(*afar.place).used_bytes <= afar.place.bound_bytes
    # One chunk, an eighth of the bound, is fetched ahead, also of the epoch that comes next.
    assert len(set(reads[0][:35])) == 35
    misses = [len(each) for each in reads]
    assert 35 <= misses[0] <= 35 + 1
    # Of 35 chunks at most 8 can be there, less the windows that are read and fetched at the end.
    assert all(35 - 8 - 1 <= each <= 35 - 4 + 1 for each in misses[1:]), misses


RANK = """
import sys
from tests.unit.remote.stores import AfarImages, Afar
from tests.unit.loader.conftest import SCHEMA
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.remote.shards import CachePlace
from pathlib import Path
folder, rank = Path(sys.argv[1]), int(sys.argv[2])
afar = Afar(RecordFiles(str(folder / "set/images-*"), SCHEMA), folder / "log",
            CachePlace(folder / "cache", 1 << 20))
with DataLoader(AfarImages(afar), 5, shuffle=int(sys.argv[3]), rank=rank, world_size=4) as loader:
    print(sum(batch.num_rows for _ in range(2) for batch in loader))
"""


@pytest.mark.parametrize("shuffle", [0, 1])
def test_ranks_that_share_a_cache_fetch_every_byte_once(afar, shuffle):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(afar.folder.parent), str(rank), str(shuffle)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(4)
    ]
    assert sum(int(rank.communicate()[0]) for rank in ranks) == 200
    counted = Counter((name, start) for _, name, start, _ in afar.reads())
    assert len(counted) == 35
    assert set(counted.values()) == {1}


def test_a_reader_that_is_killed_leaves_the_others_a_whole_cache(afar):
    rank = subprocess.Popen(
        [sys.executable, "-c", RANK, str(afar.folder.parent), "0", "1"],
        env=os.environ | {"TRAINFEED_FAULTS": "cache.written:kill"},
        stdout=subprocess.PIPE,
    )
    rank.communicate()
    assert rank.returncode == -signal.SIGKILL
    assert sorted(labels(read(AfarImages(afar)))) == list(range(100))
    assert not list((afar.place.folder / "parts").rglob("*.part"))


def test_a_fork_asks_the_store_over_connections_of_its_own(afar):
    shards = afar.shards()
    first, second = (int(shards.table.offset_bytes[chunk]) for chunk in (0, 1))
    shards.view(0, first, 100)
    (before,) = shards._stores._all
    pid = os.fork()
    if not pid:
        code = 1
        try:
            shards.view(0, second, 100)
            code = int(before in shards._stores._all)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert shards._stores._all == [before]
    shards.close()
