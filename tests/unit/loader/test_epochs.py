"""The first windows of the next epoch are loaded while the last batches of this one are consumed.

Only where it is known that a next epoch is read, and without a change of order or states.
"""

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.loader.conftest import labels
from tests.unit.loader.datasets import Offset, Squares
from trainfeed import mix
from trainfeed.errors import ConfigError
from trainfeed.loader import DataLoader
from trainfeed.loader.worker_pool import WorkerPool

WAIT_S = 60
TAILS = ("short", "drop", "pad", "repeat")
THREADS = {"num_threads": 1}
WORKERS = {"num_workers": 1}


class Counted(Squares):
    """Counts the samples that were loaded, and says when a number of them is reached."""

    def __init__(self, num_samples, broken_at=None):
        super().__init__(num_samples)
        self.num_loaded, self.wanted, self.broken_at = 0, num_samples, broken_at
        self.reached = threading.Event()

    def __getitem__(self, i):
        self.num_loaded += 1
        if self.num_loaded == self.broken_at:
            raise ValueError(f"sample {i} is broken")
        if self.num_loaded >= self.wanted:
            self.reached.set()
        return super().__getitem__(i)


def story(loader, epochs):
    """Return the labels and the states of the batches of some epochs."""
    return [(batch["label"].tolist(), batch.state) for _ in range(epochs) for batch in iter(loader)]


def test_the_next_epoch_is_loaded_while_this_one_is_consumed():
    data = Counted(40)
    data.wanted = 80
    with DataLoader(data, 10, shuffle=True, lanes=1, epochs=2, **THREADS) as loader:
        batches = iter(loader)
        next(batches)
        assert data.reached.wait(WAIT_S)
        assert len(labels(batches)) == 30
        assert sorted(labels(loader)) == list(range(40))
    assert data.num_loaded == 80


@pytest.mark.parametrize("options", [{}, THREADS, WORKERS])
@pytest.mark.parametrize("epochs", [None, 1])
def test_nothing_is_loaded_for_an_epoch_that_is_not_announced(epochs, options):
    with DataLoader(Squares(400), 10, epochs=epochs, window_bytes=800, **options) as loader:
        assert labels(loader) == list(range(400))
        num_windows = loader.report().windows
    assert loader.report().windows == num_windows > 5


def test_the_next_epoch_takes_no_more_memory_than_windows_ahead():
    options = {"window_bytes": 800, "prefetch": 3, **THREADS}
    with DataLoader(Squares(400), 10, **options) as loader:
        assert labels(loader) == list(range(400))
        num_windows = loader.report().windows
    with DataLoader(Squares(400), 10, epochs=100, **options) as loader:
        assert labels(loader) == list(range(400))
    assert num_windows <= loader.report().windows <= num_windows + 3


@pytest.mark.parametrize(
    ("options", "tail"),
    [({}, "short"), (WORKERS, "pad"), *((THREADS, tail) for tail in TAILS)],
)
def test_order_and_states_are_those_of_a_loader_without_epochs(options, tail):
    settings_ = {"shuffle": True, "seed": 3, "window_bytes": 4096, "tail": tail}
    with DataLoader(Squares(107), 10, **settings_) as plain:
        expected = story(plain, 4)
    with DataLoader(Squares(107), 10, epochs=3, **settings_, **options) as loader:
        assert story(loader, 4) == expected


@given(
    size=st.integers(1, 60),
    batch=st.integers(1, 20),
    lanes=st.integers(1, 5),
    prefetch=st.integers(1, 4),
    epochs=st.integers(1, 5),
    rank=st.integers(0, 1),
    skip=st.sampled_from([None, {"from": 0, "to": 3}, {"from": 5, "to": 9}, {"from": 5, "to": 70}]),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_a_state_of_any_batch_goes_on_with_the_next_epochs(  # noqa: PLR0917
    size, batch, lanes, prefetch, epochs, rank, skip, data
):
    order = {"shuffle": True, "lanes": lanes, "window_bytes": 512, "skip": skip}
    order |= {"rank": rank, "world_size": 2}
    with DataLoader(Squares(size), batch, **order) as plain:
        expected = story(plain, 4)
    ahead = {"prefetch": prefetch, "epochs": epochs, **THREADS}
    with DataLoader(Squares(size), batch, **order, **ahead) as loader:
        assert story(loader, 4) == expected
        at = data.draw(st.integers(0, max(0, len(expected) - 1)))
        for rows, state in expected[at : at + 1]:
            loader.load_state_dict(state.to_json())
            rest = [each[0] for each in expected[at + 1 :]]
            assert [each[0] for each in story(loader, 5)][: len(rest)] == rest, rows


def test_an_epoch_that_is_left_early_and_one_that_is_chosen_follow_their_own_order():
    options = {"shuffle": True, "window_bytes": 1024}
    with DataLoader(Squares(60), 8, **options) as plain:
        expected = [labels(plain) for _ in range(6)]
    with DataLoader(Squares(60), 8, epochs=6, **options, **THREADS) as loader:
        assert labels(loader) == expected[0]
        next(iter(loader))  # of epoch 1, left at once
        assert labels(loader) == expected[2]
        loader.set_epoch(5)
        assert labels(loader) == expected[5]
        loader.set_epoch(1)
        assert [labels(loader) for _ in range(3)] == expected[1:4]


def test_iterators_side_by_side_and_new_weights_get_what_they_would_without():
    sets = [(Offset(30, 0), 1), (Offset(30, 100), 1)]
    found = []
    for ahead in ({}, {"epochs": 9, **THREADS}):
        with DataLoader(mix(sets), 7, shuffle=True, **ahead) as loader:
            first, second = iter(loader), iter(loader)
            rows = [labels([next(first)]), labels([next(second)]), labels(first), labels(second)]
            loader.set_weights([1, 3])
            found.append([*rows, labels(loader), labels(loader)])
    assert found[0] == found[1]


@pytest.mark.parametrize("rank", range(3))
def test_a_rank_that_leaves_windows_of_a_mixture_begins_the_next_epoch_without_them(rank):
    """All ranks load the windows of a mixture; the last one may hold samples of other ranks only.

    Windows of one sample make sure of that.
    """
    sets = mix([(Offset(11, 0), 1), (Offset(9, 100), 1)], epoch_samples=10)
    options = {"window_bytes": 1, "rank": rank, "world_size": 3, "lanes": 1, "shuffle": True}
    with DataLoader(sets, 2, **options) as plain:
        expected = story(plain, 4)
    with DataLoader(sets, 2, epochs=4, **options, **THREADS) as loader:
        assert story(loader, 4) == expected


def test_a_broken_sample_of_the_next_epoch_is_an_error_of_that_epoch():
    data = Counted(40, broken_at=45)
    with DataLoader(data, 10, epochs=2, **THREADS) as loader:
        assert labels(loader) == list(range(40))
        with pytest.raises(ValueError, match="sample 4 is broken"):
            labels(loader)


@pytest.mark.parametrize("options", [THREADS, WORKERS])
def test_a_loader_that_is_dropped_between_epochs_leaves_nothing(options):
    """The fixture of this folder fails the test if threads or processes are left."""
    loader = DataLoader(Squares(40), 10, epochs=3, **options)
    assert labels(loader) == list(range(40))
    del loader


@pytest.mark.parametrize("options", [THREADS, WORKERS])
def test_a_fork_between_epochs_reads_the_next_epoch_by_itself(options):
    with DataLoader(Squares(40), 10, shuffle=True, **options) as plain:
        expected = [labels(plain) for _ in range(2)]
    with DataLoader(Squares(40), 10, shuffle=True, epochs=3, **options) as loader:
        assert labels(loader) == expected[0]
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if labels(loader) == expected[1] else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert labels(loader) == expected[1]


def test_the_same_workers_serve_all_epochs(monkeypatch):
    started, start = [], WorkerPool.__init__

    def counted(pool, job, num_workers):
        started.append(num_workers)
        start(pool, job, num_workers)

    monkeypatch.setattr(WorkerPool, "__init__", counted)
    with DataLoader(Squares(50), 10, epochs=3, **WORKERS) as loader:
        for _ in range(5):
            assert labels(loader) == list(range(50))
    assert started == [1]


def test_a_batch_that_is_kept_into_the_next_epoch_is_not_written_over():
    data = np.arange(64)
    with DataLoader(data, 16, epochs=4, prefetch=1, **THREADS) as loader:
        kept = [batch for _ in range(4) for batch in loader]
    assert [batch["0"].tolist() for batch in kept] == 4 * data.reshape(4, 16).tolist()


@pytest.mark.parametrize("epochs", [0, -1, 1.5, "2", True])
def test_a_number_of_epochs_is_a_whole_number_from_one_on(epochs):
    with pytest.raises((ConfigError, TypeError), match="epochs"):
        DataLoader(Squares(4), epochs=epochs)


def test_an_iterable_has_no_next_epoch_to_load():
    with pytest.raises(ConfigError, match="no epochs beside an iterable"):
        DataLoader(iter([1]), epochs=2)
