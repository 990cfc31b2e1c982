"""Iterables and readers: read from the start, cut and resumed like everything else."""

import json
import time

import pytest

from tests.unit.loader.conftest import labels
from trainfeed.decorators import batch, shuffle
from trainfeed.errors import ConfigError, LoaderError
from trainfeed.loader import DataLoader


def numbers(total):
    def read():
        return ({"label": i, "name": f"n{i}"} for i in range(total))

    return read


OPTIONS = [{}, {"num_threads": 1}, {"num_workers": 1}]


@pytest.mark.parametrize("options", OPTIONS)
def test_readers_and_iterables_are_read_in_order(options):
    for dataset in (numbers(23), list(numbers(23)()).__iter__):
        with DataLoader(dataset, 5, **options) as loader:
            for _ in range(2):
                batches = list(loader)
                assert labels(batches) == list(range(23))
                assert [batch.num_rows for batch in batches] == [5, 5, 5, 5, 3]
                assert batches[0]["name"][4] == "n4"


class Endless:
    def __iter__(self):
        i = 0
        while True:
            yield i
            i += 1


@pytest.mark.parametrize("options", OPTIONS)
def test_an_iterable_may_be_infinite(options):
    with DataLoader(Endless(), 4, **options) as loader:
        found = [batch["0"].tolist() for batch, _ in zip(loader, range(3), strict=False)]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("total", [0, 1, 20, 23])
@pytest.mark.parametrize("tail", ["short", "drop", "pad", "repeat"])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ranks_get_equally_many_batches(total, tail, world_size):
    counts, found, rows = set(), [], 0
    for rank in range(world_size):
        options = {"rank": rank, "world_size": world_size, "tail": tail}
        with DataLoader(numbers(total), 4, **options) as loader:
            batches = list(loader)
        counts.add(len(batches))
        rows += sum(batch.num_rows for batch in batches)
        found += labels(batches)
        assert all(set(batch) == {"label", "name"} for batch in batches)
    assert len(counts) == 1
    whole = total // (4 * world_size) * 4 * world_size
    if tail == "drop":
        assert sorted(found) == list(range(whole))
    elif tail == "repeat":
        assert set(found) == set(range(total))
        assert rows == len(found) == counts.pop() * 4 * world_size
    else:
        assert sorted(found) == list(range(total))


def test_every_state_restores_the_rest():
    for world_size in (1, 2):
        with DataLoader(numbers(23), 4) as loader:
            states = [loader.state_dict()] + [loader.state_dict() for _ in loader]
        for state in states:
            ranks = []
            for rank in range(world_size):
                options = {"rank": rank, "world_size": world_size, "tail": "pad"}
                with DataLoader(numbers(23), 3, **options) as loader:
                    loader.load_state_dict(json.loads(json.dumps(state)))
                    ranks.append(iter(labels(loader)))
            expected = list(range(state["position"], 23))
            assert [next(ranks[p % world_size]) for p in expected] == expected


def test_shuffled_readers_get_another_order_in_every_epoch():
    reader = shuffle(numbers(50), 20, seed=3)
    with DataLoader(reader, 10) as loader:
        first, second = labels(loader), labels(loader)
        loader.set_epoch(0)
        assert labels(loader) == first
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))


def test_what_an_iterable_raises_comes_after_the_batches_before():
    def read():
        yield from range(10)
        raise OSError("cable")

    for options in OPTIONS:
        with DataLoader(read, 4, **options) as loader:
            found = []
            with pytest.raises(OSError, match="cable"):
                found.extend(batch["0"].tolist() for batch in loader)
            assert loader.state_dict()["position"] == 8
        assert found == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("tail", ["short", "drop"])
def test_a_batch_waits_for_no_more_than_tells_whether_it_is_the_last(tail):
    taken = []

    def read():
        for i in range(100):
            taken.append(i)
            yield i

    with DataLoader(read, 4, tail=tail) as loader:
        next(iter(loader))
    assert len(taken) == (8 if tail == "drop" else 5)


def test_a_dropped_tail_ends_the_epoch():
    with DataLoader(numbers(23), 4, tail="drop") as loader:
        states = [loader.state_dict() for _ in loader]
        loader.load_state_dict(states[-1])
        assert (states[-1]["epoch"], states[-1]["position"]) == (1, 0)
        assert labels(loader) == list(range(20))


class IterableDataset:
    """As torch's and Paddle's: has what it does not give."""

    def __getitem__(self, i):
        raise NotImplementedError

    def __len__(self):
        raise RuntimeError


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


def test_iterable_datasets_of_frameworks_are_read_from_the_start():
    with DataLoader(Stream(), 2) as loader:
        assert [batch["0"].tolist() for batch in loader] == [[0, 1], [2, 3], [4]]


class Epochs:
    """Says which epoch it was told to give."""

    epoch = None

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        yield from ({"label": self.epoch} for _ in range(3))


@pytest.mark.parametrize("options", OPTIONS)
def test_an_iterable_is_told_its_epoch(options):
    with DataLoader(Epochs(), 3, **options) as loader:
        assert [labels(loader) for _ in range(2)] == [[0] * 3, [1] * 3]
        loader.set_epoch(7)
        assert labels(loader) == [7] * 3


def test_an_iterator_is_read_once_and_then_refused():
    with DataLoader(numbers(3)(), 2) as loader:
        assert labels(loader) == [0, 1, 2]
        with pytest.raises(ConfigError, match="got an iterator, which can be read only once"):
            next(iter(loader))


def test_what_an_iterable_cannot_do_is_refused():
    with pytest.raises(ConfigError, match=r"shuffle it with\s+trainfeed.decorators.shuffle"):
        DataLoader(numbers(3), 1, shuffle=True)
    with pytest.raises(ConfigError, match="one thread or process"):
        DataLoader(numbers(3), 1, num_workers=2)
    with DataLoader(numbers(3), 1) as loader:
        with pytest.raises(TypeError):
            len(loader)
        with pytest.raises(ConfigError, match="expected a mixture"):
            loader.set_weights([1])
        loader.load_state_dict(loader.state_dict() | {"position": 4})
        with pytest.raises(ConfigError, match="expected at least 4 samples"):
            list(loader)


@pytest.mark.parametrize("options", OPTIONS)
def test_batches_are_not_batched_again(options):
    def by_hand():
        yield [(0, 0), (1, 1)]
        yield [(2, 4), (3, 9)]

    with pytest.raises(ConfigError, match="expected a reader of samples, got one of batches"):
        DataLoader(batch(numbers(10), 4), 2, **options)
    with (
        DataLoader(by_hand, 2, **options) as loader,
        pytest.raises(LoaderError, match="expected samples, got a batch"),
    ):
        next(iter(loader))


@pytest.mark.parametrize("options", OPTIONS)
def test_figures_tell_how_long_an_iterable_was_waited_for(options):
    def slow():
        for i in range(4):
            time.sleep(0.05)
            yield i

    with DataLoader(slow, 2, **options) as loader:
        list(loader)
        report = loader.report()
    # What reads ahead goes on while the consumer has no turn.
    assert report.elapsed_s >= report.wait_s + report.assemble_s > report.wait_s
    assert report.wait_s > (0 if options else 0.15)
    assert report.stall_fraction > 0
    assert report.load_s == (0 if options else report.wait_s)


def test_rows_that_are_repeated_count_as_samples():
    with DataLoader(range(7).__iter__, 2, tail="repeat") as loader:
        rows = sum(batch.num_rows for batch in loader)
        assert loader.report().samples == rows == 8
