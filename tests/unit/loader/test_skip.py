"""Stretches of the order that are left out, against a plain model of it."""

import json
import re
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainfeed
from tests.unit.loader.conftest import labels
from tests.unit.loader.datasets import Squares
from trainfeed.errors import ConfigError
from trainfeed.loader import DataLoader, LoaderState

TOTAL = 23
LANES = 12
EPOCHS = 3


def load(skip=None, batch_size=4, **options):
    more = {"lanes": LANES} if options.setdefault("shuffle", True) else {}
    return DataLoader(Squares(TOTAL), batch_size, seed=5, skip=skip, **more, **options)


ORDERS = {
    shuffle: [labels(batches) for batches in [load(shuffle=shuffle)] * EPOCHS]
    for shuffle in (True, False)
}


def model(order, state, left_out, ranks, size, tail):
    """Return the batches of every rank from a position of an epoch on, as labels that count."""
    epoch, start = state["epoch"], state["position"]
    kept = [p for p in range(TOTAL) if epoch * TOTAL + p not in left_out]
    batches = [[] for _ in range(ranks)]
    for _, group in groupby(enumerate(kept), key=lambda pair: pair[1] - pair[0]):
        part = [p for _, p in group if p >= start]
        while part:
            taken, part = part[: ranks * size], part[ranks * size :]
            missing = ranks * size - len(taken)
            if missing and tail == "drop":
                break
            filling = kept * ranks * size if tail == "repeat" else []
            # The ranks take turns, the one after that of the last sample first.
            turns = [(taken[-1] + 1 + i) % ranks for i in range(missing)]
            for rank in range(ranks):
                own = [p for p in taken if p % ranks == rank]
                own += [p for p, turn in zip(filling, turns, strict=False) if turn == rank]
                batches[rank].append([order[epoch][p] for p in own])
    return batches


skips = st.lists(
    st.tuples(st.integers(0, EPOCHS * TOTAL - 1), st.integers(1, 2 * TOTAL)), max_size=3
).map(lambda pairs: [{"from": start, "to": start + length} for start, length in pairs])


def left_out_by(skip):
    return {place for stretch in skip for place in range(stretch["from"], stretch["to"])}


@settings(max_examples=80, deadline=None)
@given(
    skip=skips,
    ranks=st.integers(1, 4),
    size=st.integers(1, 6),
    tail=st.sampled_from(["short", "drop", "pad", "repeat"]),
    shuffle=st.booleans(),
)
def test_all_ranks_get_the_order_without_the_stretches(skip, ranks, size, tail, shuffle):
    loaders = [
        load(skip, size, shuffle=shuffle, rank=rank, world_size=ranks, tail=tail)
        for rank in range(ranks)
    ]
    for epoch in range(EPOCHS):
        begin = {"epoch": epoch, "position": 0}
        wanted = model(ORDERS[shuffle], begin, left_out_by(skip), ranks, size, tail)
        found = []
        for loader in loaders:
            loader.set_epoch(epoch)
            assert len(loader) == len(wanted[0])
            found.append([labels([batch]) for batch in loader])
        assert found == wanted


@settings(max_examples=40, deadline=None)
@given(
    skip=skips,
    ranks=st.integers(1, 3),
    size=st.integers(1, 6),
    then=st.integers(1, 3),
    data=st.data(),
)
def test_any_state_brings_the_stretches_to_any_number_of_ranks(skip, ranks, size, then, data):
    loader, states = load(skip, size, world_size=ranks), []
    for _ in range(EPOCHS):
        states += [batch.state.to_json() for batch in loader]
    state = data.draw(st.sampled_from(states or [loader.state_dict()]))
    if state["epoch"] == EPOCHS:
        return
    for rank in range(then):
        # One that was told nothing leaves out what the state says.
        restored = load(world_size=then, rank=rank)
        restored.load_state_dict(json.loads(json.dumps(state)))
        wanted = model(ORDERS[True], state, left_out_by(skip), then, 4, "short")
        assert [labels([batch]) for batch in restored] == wanted[rank]


@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
def test_every_state_goes_on_with_the_batch_behind_it(tail):
    skip = [{"from": 5, "to": 9}, {"from": 20, "to": 30}]
    with load(skip, tail=tail) as loader:
        run = [batch for _ in range(EPOCHS) for batch in loader]
    for number, state in enumerate(batch.state.to_json() for batch in run):
        with load(skip, tail=tail) as loader:
            loader.load_state_dict(state)
            rest = [batch for _ in range(state["epoch"], EPOCHS) for batch in loader]
        assert [labels([batch]) for batch in rest] == [labels([b]) for b in run[number + 1 :]]


@pytest.mark.parametrize("options", [{"num_threads": 2}, {"num_workers": 2}, {"copy": True}])
def test_threads_and_workers_leave_out_the_same(options):
    skip = {"from": 5, "to": 30}
    with load(skip, **options) as loader:
        found = [labels(loader) for _ in range(2)]
    assert found == [ORDERS[True][0][:5], ORDERS[True][1][7:]]


def test_a_mixture_leaves_out_positions_of_its_own_order():
    def mixed(skip=None):
        sets = trainfeed.mix([(Squares(20), 0.5), (Squares(30), 0.5)], epoch_samples=30)
        return DataLoader(sets, 7, shuffle=True, seed=2, skip=skip)

    whole = mixed()
    first, second = labels(whole), labels(whole)
    loader = mixed({"from": 20, "to": 41})
    assert [labels(loader), labels(loader)] == [first[:20], second[11:]]


def test_filling_comes_from_samples_that_are_not_left_out():
    with load({"from": 0, "to": 10}, 8, shuffle=False, tail="pad") as loader:
        batches = list(loader)
    assert [batch.num_padded for batch in batches] == [0, 3]
    assert batches[-1]["label"].tolist() == [18, 19, 20, 21, 22, 10, 11, 12]


def test_an_epoch_that_is_left_out_whole_gives_no_batch_and_the_next_one_follows():
    with load({"from": TOTAL, "to": 2 * TOTAL}) as loader:
        found = [labels(loader) for _ in range(3)]
        assert loader.state_dict()["epoch"] == 3
    assert found == [ORDERS[True][0], [], ORDERS[True][2]]


def test_a_state_without_a_stretch_has_no_word_of_it():
    with load() as loader:
        assert "skips" not in loader.state_dict()
    with load([{"from": 9, "to": 12}, {"from": 2, "to": 5}, {"from": 5, "to": 6}]) as loader:
        assert loader.state_dict()["skips"] == [[2, 6], [9, 12]]
        assert LoaderState.from_json(loader.state_dict()).skips == ((2, 6), (9, 12))


def test_a_stretch_ahead_of_a_state_joins_those_that_it_has():
    with load({"from": 2, "to": 4}) as first:
        next(iter(first))
        state = first.state_dict()
    with load({"from": 10, "to": 12}) as loader:
        loader.load_state_dict(state)
        assert loader.state_dict()["skips"] == [[2, 4], [10, 12]]
        order = ORDERS[True][0]
        assert labels(loader) == order[4:10] + order[12:]


def test_a_stretch_behind_a_state_that_does_not_know_of_it_is_refused():
    with load() as first:
        for _ in zip(range(3), first, strict=False):
            state = first.state_dict()
    message = re.escape("expected a skip from sample 12 on, where the state stands, got one from 8")
    with load({"from": 8, "to": 20}) as loader:
        with pytest.raises(ConfigError, match=message):
            loader.load_state_dict(state)
        # What it knows of is no contradiction, also behind it.
        loader.load_state_dict(state | {"skips": [[8, 20]]})
        assert loader.state_dict()["position"] == 12
        assert labels(loader) == ORDERS[True][0][20:]


@pytest.mark.parametrize(
    "skip",
    [
        5,
        "12",
        {"from": 1},
        {"from": 1, "to": 1},
        {"from": -1, "to": 1},
        [3],
        {"from": 0.5, "to": 2},
    ],
)
def test_what_is_no_stretch_is_refused(skip):
    with pytest.raises(ConfigError, match=r"expected (skip as|the (start|end) of a skip)"):
        load(skip)


@pytest.mark.parametrize("skips", [None, [[1]], [[3, 2]], [["a", 4]], [[1, 2]] * 2000, {"a": 1}])
def test_a_state_with_broken_stretches_is_refused(skips):
    with load() as loader:
        state = loader.state_dict() | {"skips": skips}
        if skips == [[1, 2]] * 2000:  # one and the same
            loader.load_state_dict(state)
            return
        with pytest.raises(ConfigError, match="expected"):
            loader.load_state_dict(state)
    many = [[2 * i, 2 * i + 1] for i in range(2000)]
    with load() as loader, pytest.raises(ConfigError, match="at most 1000 stretches"):
        loader.load_state_dict(loader.state_dict() | {"skips": many})


def test_an_iterable_has_no_order_to_leave_anything_out_of():
    with pytest.raises(ConfigError, match="expected no skip beside an iterable"):
        DataLoader(lambda: iter([{"label": 1}]), 2, skip={"from": 0, "to": 1})
    with DataLoader(lambda: iter([{"label": 1}]), 2) as loader:
        state = loader.state_dict() | {"skips": [[0, 1]]}
        with pytest.raises(ConfigError, match="expected no skip beside an iterable"):
            loader.load_state_dict(state)
