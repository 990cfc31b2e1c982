"""Epochs, states and ranks, as frameworks ask adapters for them."""

import json

import numpy as np
import pytest

from trainfeed.adapters.passes import Adapted, converted, hold_ranks
from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.loader import DataLoader


class Passes(Adapted):
    """An adapter that changes nothing but arrays into lists."""

    def __iter__(self):
        for batch in self._pass():
            yield converted(batch, lambda _, values: values.tolist(), marks=False)


class Numbers:
    """Ten samples, in an order that depends on the epoch."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {"x": index}


def shuffled():
    """A loader over a generator, five batches of two in an order that depends on the epoch."""

    class Reader:
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __call__(self):
            order = np.random.default_rng(self.epoch).permutation(10)
            return ((n,) for n in order.tolist())

    loader = GeneratorLoader.from_generator(capacity=2)
    return loader.set_sample_generator(Reader(), 2)


KINDS = {
    "loader": lambda: DataLoader(Numbers(), 2, shuffle=True, seed=3),
    "generator": shuffled,
    "list": lambda: [{"x": np.arange(n, n + 2)} for n in range(5)],
}


@pytest.fixture(params=KINDS)
def make(request):
    return lambda: Passes(KINDS[request.param]())


def test_a_list_of_arrays_stays_a_list_and_a_mapping_a_mapping():
    lists = [[np.arange(2), np.ones(1)], {"x": np.zeros(1)}, [{"x": np.zeros(1)}], np.arange(1)]
    assert list(Passes(lists)) == [[[0, 1], [1.0]], {"x": [0.0]}, [{"x": [0.0]}], [0]]


def test_something_else_than_arrays_is_refused():
    with pytest.raises(SampleShapeError, match="lists of arrays, got int"):
        list(Passes([3]))


@pytest.mark.parametrize("taken", [1, 4])
def test_a_state_is_gone_on_with_exactly_also_in_a_later_epoch(make, taken):
    whole, part, other = make(), make(), make()
    for passes in (whole, part):
        passes.set_epoch(1)
    batches = iter(part)
    begun = [next(batches) for _ in range(taken)]
    other.load_state_dict(json.loads(json.dumps(part.state_dict())))
    assert begun + list(other) == list(whole)
    assert list(other) == list(whole)


def test_after_the_last_batch_comes_the_next_epoch(make):
    first, other = make(), make()
    list(first)
    other.load_state_dict(first.state_dict())
    assert list(other) == list(first)


def test_an_epoch_that_is_set_keeps_the_place_that_was_loaded_in_it(make):
    first = make()
    list(first)
    batches = iter(first)
    begun = [next(batches) for _ in range(3)]
    other, whole = make(), make()
    other.load_state_dict(first.state_dict())
    other.set_epoch(1)
    whole.set_epoch(1)
    assert begun + list(other) == list(whole)


def test_another_epoch_would_lose_the_place_and_is_refused(make):
    first = make()
    next(iter(first))
    other = make()
    other.load_state_dict(first.state_dict())
    with pytest.raises(ConfigError, match=r"epoch 0.*which would lose it"):
        other.set_epoch(1)


def test_an_epoch_that_was_left_early_may_be_followed_by_any(make):
    passes = make()
    next(iter(passes))
    passes.set_epoch(0)
    assert list(passes) == list(make())


def test_the_length_is_that_of_the_loader():
    assert len(Passes([1, 2])) == 2
    assert len(Passes(DataLoader(Numbers(), 4))) == 3
    with pytest.raises(TypeError, match="no len"):
        len(Passes(shuffled()))


def test_a_state_of_something_longer_is_refused():
    passes = Passes([{"x": np.arange(1)}])
    passes.load_state_dict({"version": 1, "epoch": 0, "batches": 2})
    with pytest.raises(
        ConfigError, match="at least 2 batches, because the loaded state is at that place"
    ):
        list(passes)


@pytest.mark.parametrize("state", [None, {}, {"version": 2, "epoch": 0, "batches": 0}, [1, 2]])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(ConfigError, match="expected a state of an adapter"):
        Passes([]).load_state_dict(state)


@pytest.mark.parametrize(
    ("rank", "world_size", "lost"),
    [(0, 1, "all samples"), (0, 2, "the same share"), (1, 4, None), (1, 2, None)],
)
def test_a_loader_of_another_rank_is_refused(rank, world_size, lost):
    """Four shares for two processes may be meant: parts of a model share a rank."""
    loader = DataLoader(Numbers(), 2, rank=rank, world_size=world_size)
    if lost is None:
        hold_ranks(loader, 1, 2, "torch.distributed")
        return
    with pytest.raises(ConfigError, match=f"{lost}.*; write .*rank=1, world_size=2"):
        hold_ranks(loader, 1, 2, "torch.distributed")


def test_one_process_may_read_any_share_and_batches_without_ranks_pass():
    hold_ranks(DataLoader(Numbers(), 2, rank=1, world_size=2), 0, 1, "JAX")
    hold_ranks([], 1, 2, "JAX")
