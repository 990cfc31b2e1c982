"""Epochs, states and ranks, as frameworks ask adapters for them."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from trainfeed import adapters
from trainfeed.adapters.passes import Adapted, TensorBatches, converted, hold_ranks
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


class Tensors(TensorBatches):
    """Tensors that are pairs of name and list, of rank 1 of 2."""

    where = "a framework"

    def _ranks(self):
        return 1, 2

    def _tensor(self, name, values):
        return name, values.tolist()


def test_arrays_become_tensors_and_arrays_of_objects_lists():
    texts = np.array(["a", None], object)
    batch = {"x": np.array([1, 2]), "text": texts}
    (out,) = Tensors([batch], check_ranks=True)
    assert out == {"x": ("x", [1, 2]), "text": ["a", None]}
    assert [*Tensors([[np.array([3])]], check_ranks=True)] == [[("", [3])]]


def test_a_loader_of_another_rank_is_refused_when_the_pass_starts():
    loader = DataLoader(Numbers(), batch_size=2, rank=0, world_size=2)
    with pytest.raises(ConfigError, match="rank 1 of 2, because a framework has"):
        iter(Tensors(loader, check_ranks=True))
    assert len([*Tensors(loader, check_ranks=False)]) == 3


def in_place_of(monkeypatch, name, **content):
    """Put a module in the place of a framework, and forget the adapter that imports it."""
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    monkeypatch.delitem(sys.modules, f"trainfeed.adapters._{name}", raising=False)


def test_the_adapters_of_paddle_and_jax_ask_their_framework(monkeypatch):
    ranks = SimpleNamespace(get_rank=lambda: 1, get_world_size=lambda: 2)
    in_place_of(monkeypatch, "paddle", distributed=ranks, from_dlpack=lambda a: ("paddle", a))
    in_place_of(
        monkeypatch,
        "jax",
        config=SimpleNamespace(jax_enable_x64=False),
        process_index=lambda: 1,
        process_count=lambda: 2,
        device_put=lambda a, device: (device, a.dtype.str, a.tolist()),
        make_array_from_process_local_data=lambda _, a: ("all", a.tolist()),
    )
    loader = DataLoader(Numbers(), batch_size=2, rank=0, world_size=2, tail="short")
    for adapted, where in ((adapters.paddle, "paddle.distributed"), (adapters.jax, "JAX")):
        with pytest.raises(ConfigError, match=f"because {where} has"):
            iter(adapted(loader))
    (out,) = adapters.paddle([{"x": np.array([7])}])
    assert (out["x"][0], out["x"][1].tolist()) == ("paddle", [7])
    (out,) = adapters.jax([{"x": np.array([7])}], device="cpu")
    assert out == {"x": ("cpu", "<i4", [7])}
    part = SimpleNamespace(is_fully_addressable=False)
    (out,) = adapters.jax([{"x": np.array([7])}], device=part)
    assert out == {"x": ("all", [7])}
    with pytest.raises(ConfigError, match="as many rows on every process"):
        iter(adapters.jax(loader, device=part, check_ranks=False))
    for name in ("paddle", "jax"):
        sys.modules.pop(f"trainfeed.adapters._{name}")
