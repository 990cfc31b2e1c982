"""Mixtures: exact shares, sets that start again by themselves, weights that change, resume."""

import json
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.loader.conftest import labels, note, write_images
from tests.unit.loader.datasets import Offset, Squares
from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.loader import DataLoader, mix
from trainfeed.loader.mixture import History, MixSchedule, shares_of

A, B, C = Offset(23, 1000), Offset(11, 2000), Offset(3, 3000)


@settings(max_examples=80, deadline=None)
@given(shares=st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(sum))
def test_the_schedule_is_exact_and_its_inverse_finds_the_way_back(shares):
    schedule = MixSchedule(tuple(shares))
    children, own = schedule.place(np.arange(200))
    seen = [0] * len(shares)
    for position, (child, number) in enumerate(zip(children.tolist(), own.tolist(), strict=True)):
        assert number == seen[child]
        assert schedule.position_of(child, number) == position
        seen[child] += 1
        assert schedule.counts(position + 1) == seen
        for count, share in zip(seen, shares, strict=True):
            assert abs(count - (position + 1) * share / sum(shares)) <= len(shares)


def test_two_sets_follow_the_formula():
    children, _ = MixSchedule((7, 3)).place(np.arange(100))
    expected = [(i + 1) * 7 // 10 - i * 7 // 10 for i in range(100)]
    assert [1 - child for child in children] == expected


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ([0.7, 0.3], (7, 3)),
        ([2, 4, 6], (1, 2, 3)),
        ([Fraction(1, 3), Fraction(2, 3)], (1, 2)),
        ([0, 5], (0, 1)),
        ([1e-3, 1], (1, 1000)),
    ],
)
def test_weights_mean_what_they_say(weights, shares):
    assert shares_of(weights) == shares


@pytest.mark.parametrize("weights", [[], [0, 0], [-1, 2], [float("nan"), 1], [1e-9, 1], ["x"]])
def test_weights_without_sense_are_refused(weights):
    with pytest.raises(ConfigError):
        shares_of(weights)


def test_a_mixture_gives_every_set_its_share_and_its_own_epochs():
    with DataLoader(mix({A: 0.7, B: 0.3}, seed=1), 10, shuffle=True) as loader:
        assert len(loader) == 4
        found = [label for _ in range(20) for label in labels(loader)]
    assert len(found) == 20 * 34
    assert sum(label < 2000 for label in found) == 34 * 20 * 7 // 10
    for offset, size in ((1000, 23), (2000, 11)):
        own = [label - offset for label in found if offset <= label < offset + 1000]
        passes = [own[i : i + size] for i in range(0, len(own) - size, size)]
        assert all(sorted(a_pass) == list(range(size)) for a_pass in passes)
        assert all(a != b for a, b in pairwise(passes))


def reference(mixture, num_epochs, **options):
    with DataLoader(mixture, 5, shuffle=True, seed=2, **options) as loader:
        return [labels(loader) for _ in range(num_epochs)]


def test_the_mixture_is_the_same_however_it_is_read():
    mixture = mix([(A, 3), (B, 2), (C, 1)], seed=4)
    whole = reference(mixture, 3)
    for options in ({"num_threads": 2}, {"num_threads": 1, "prefetch": 1}, {"copy": True}):
        assert reference(mixture, 3, **options) == whole
    for world_size in (2, 3, 5):
        ranks = []
        for rank in range(world_size):
            options = {"rank": rank, "world_size": world_size, "shuffle": True, "seed": 2}
            with DataLoader(mixture, 4, **options) as loader:
                loader.load_state_dict(loader.state_dict() | {"lanes": 16})
                ranks.append([iter(labels(loader)) for _ in range(2)])
        for epoch in range(2):
            merged = [next(ranks[p % world_size][epoch]) for p in range(37)]
            assert merged == whole[epoch]


def test_workers_read_the_same_mixture():
    mixture = mix([(A, 3), (B, 2), (C, 1)], seed=4)
    whole = reference(mixture, 2)
    assert reference(mixture, 2, num_workers=2) == whole


def test_every_state_of_a_mixture_restores_the_rest():
    mixture = mix([(A, 3), (B, 2), (C, 1)], seed=4)
    whole = reference(mixture, 3)
    with DataLoader(mixture, 5, shuffle=True, seed=2) as loader:
        states = [loader.state_dict()] + [loader.state_dict() for _ in range(2) for _ in loader]
    for state in states:
        for options in ({"batch_size": 5}, {"batch_size": 3, "num_threads": 2}):
            with DataLoader(mixture, shuffle=True, seed=2, **options) as loader:
                loader.load_state_dict(json.loads(json.dumps(state)))
                assert labels(loader) == whole[state["epoch"]][state["position"] :]


def test_weights_change_at_a_recorded_position():
    mixture = mix([(A, 1), (B, 1)], seed=4, epoch_samples=200)
    with DataLoader(mixture, 10, shuffle=True) as loader:
        first = []
        for _, batch in zip(range(5), loader, strict=False):
            first += labels([batch])
        loader.set_weights([1, 9])
        changed = loader.state_dict()
        rest = labels(loader)
    assert changed["position"] == 50
    assert changed["weights"] == [[0, [1, 1]], [50, [1, 9]]]
    assert Counter(label // 1000 for label in first) == {1: 25, 2: 25}
    assert Counter(label // 1000 for label in rest) == {1: 15, 2: 135}
    # The sets go on where they were: no sample of A comes twice before all have come.
    own = [label for label in first + rest if label < 2000]
    assert len(set(own[:23])) == 23
    with DataLoader(mixture, 7, shuffle=True) as again:
        again.load_state_dict(changed)
        assert labels(again) == rest
        following = labels(again)
    assert Counter(label // 1000 for label in following) == {1: 20, 2: 180}


def test_a_history_counts_through_its_changes():
    history = History(((0, (1, 1)), (7, (3, 0)), (20, (1, 4))), 2)
    children, own = history.place(np.arange(60))
    seen = [0, 0]
    for position, (child, number) in enumerate(zip(children.tolist(), own.tolist(), strict=True)):
        assert number == seen[child]
        assert history.position_of(child, number) == position
        seen[child] += 1
        assert history.counts(position + 1) == seen


@pytest.mark.parametrize("tail", ["pad", "repeat", "drop", "short"])
def test_tails_of_mixtures_keep_batch_counts_equal(tail):
    mixture = mix([(A, 3), (B, 2)], seed=4)
    counts, found = set(), []
    for rank in range(3):
        options = {"rank": rank, "world_size": 3, "tail": tail, "shuffle": True}
        with DataLoader(mixture, 4, **options) as loader:
            batches = list(loader)
            counts.add(len(batches))
            found += labels(batches)
    assert len(counts) == 1
    assert len(found) == {"pad": 34, "repeat": 36, "drop": 24, "short": 34}[tail]


def test_sets_in_natural_order_may_be_mixed():
    with DataLoader(mix({A: 1, B: 1}), 6) as loader:
        found = labels(loader)
    assert [label for label in found if label < 2000] == list(range(1000, 1017))


def test_files_are_mixed(tmp_path):
    images = write_images(tmp_path, [31, 12])
    other = tmp_path / "other"
    other.mkdir()
    more = write_images(other, [20])
    with DataLoader(mix({images: 0.5, more: 0.5}), 8, shuffle=True, num_threads=1) as loader:
        found = [label for _ in range(3) for label in labels(loader)]
    assert len(found) == 3 * 63


def test_a_set_may_be_mixed_with_itself():
    with DataLoader(mix([(A, 1), (A, 1)]), 46, shuffle=True) as loader:
        (batch,) = loader
    first, second = batch["label"][::2].tolist(), batch["label"][1::2].tolist()
    assert sorted(first) == sorted(second)
    assert first != second


def test_mixtures_without_sense_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="at least one data set"):
        mix({})
    for number in (0, 2.5, "5", True):
        with pytest.raises(ConfigError, match="epoch_samples"):
            mix({A: 1}, epoch_samples=number)
    with pytest.raises(ConfigError, match="expected seed"):
        mix({A: 1}, seed=None)
    with pytest.raises(ConfigError, match=r"expected pairs .* got Offset"):
        mix([A, B])
    with pytest.raises(ConfigError, match="have none"):
        DataLoader(mix({Squares(0): 1, A: 1}), 2)
    with pytest.raises(ConfigError, match="samples have numbers"):
        DataLoader(mix([(iter, 1)]), 2)
    with DataLoader(mix({A: 1, B: 1}), 2) as loader:
        state = loader.state_dict()
        with pytest.raises(ConfigError, match="expected 2 weights"):
            loader.set_weights([1])
        with pytest.raises(ConfigError, match="expected 2 weights"):
            loader.load_state_dict(state | {"weights": [[0, [1]]]})
        with pytest.raises(ConfigError, match="from position 0 on"):
            loader.load_state_dict(state | {"weights": [[3, [1, 1]]]})
        assert len(labels(loader)) == 34
    with DataLoader(A, 2) as loader, pytest.raises(ConfigError, match="got one data set"):
        loader.set_weights([1])


def test_sets_of_different_fields_are_not_mixed_silently():
    class Other(Squares):
        def __getitem__(self, i):
            return {"label": i, "other": i}

    for options in ({}, {"shuffle": True}):
        loader = DataLoader(mix({A: 1, Other(9): 1}), 4, **options)
        with loader, pytest.raises(SampleShapeError, match="some samples have the fields"):
            list(loader)


def test_sets_of_variable_size_are_mixed(notes):
    with DataLoader(mix([(notes, 1), (notes, 2)]), 8, shuffle=True) as loader:
        for batch in loader:
            for label, text in zip(batch["label"], batch["note"], strict=True):
                assert text == note(int(label))["note"]


def test_numbers_of_any_type_give_states_that_can_be_stored():
    mixture = mix({A: 1, B: 1}, seed=np.int32(3), epoch_samples=np.int64(20))
    with DataLoader(mixture, 3) as loader:
        next(iter(loader))
        loader.set_weights([1, 2])
        state = loader.state_dict()
    assert json.loads(json.dumps(state)) == state
