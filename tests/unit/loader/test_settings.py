"""Common first mistakes: other types of numbers, names of other libraries, paths."""

import copy
import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.unit.loader.conftest import labels
from tests.unit.loader.datasets import Squares
from trainfeed import mix
from trainfeed.errors import ConfigError
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec


@pytest.mark.parametrize("seed", [2**63, 2**64 - 1, -(2**63), np.uint64(2**64 - 1)])
def test_a_seed_of_64_bits_can_be_restored(seed):
    with DataLoader(Squares(40), 8, shuffle=True, seed=seed) as loader:
        rest = iter(loader)
        next(rest)
        state = json.loads(json.dumps(loader.state_dict()))
        expected = labels(rest)
        loader.load_state_dict(state)
        assert labels(loader) == expected


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"seed": 2**64}, "seed"),
        ({"world_size": 70_000}, "world_size"),
        ({"window_bytes": 2**63}, "window_bytes"),
        ({"max_bytes": 2**70}, "max_bytes"),
        ({"rank": "0"}, "rank"),
        ({"rank": 0.0}, "rank"),
        ({"world_size": None}, "world_size"),
        ({"batch_size": "8"}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"timeout_s": None}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"read_deadline_s": "60"}, "read_deadline_s"),
        ({"shuffle": "yes"}, "shuffle"),
        ({"copy": None}, "copy"),
        ({"on_report": 5}, "on_report"),
    ],
)
def test_what_could_not_be_restored_or_used_is_refused_at_once(settings, what):
    with pytest.raises(ConfigError, match=f"expected {what} "):
        DataLoader(Squares(5), **settings)


def test_whole_numbers_of_any_type_are_fine():
    numbers = {"batch_size": np.int64(4), "rank": np.uint8(0), "world_size": np.int32(1)}
    others = {"num_threads": np.int64(1), "prefetch": np.int64(3), "shuffle": np.bool_(True)}
    with DataLoader(Squares(9), seed=np.int32(3), **numbers, **others) as loader:
        loader.set_epoch(np.int64(2))
        assert sorted(labels(loader)) == list(range(9))
        state = json.loads(json.dumps(loader.state_dict()))
    with DataLoader(Squares(9), 4, seed=3, shuffle=True) as same:
        same.load_state_dict(state)


@pytest.mark.parametrize("epoch", ["1", 1.5, True, None, 2**70, -1])
def test_an_epoch_that_could_not_be_restored_is_refused(epoch):
    with DataLoader(Squares(5)) as loader, pytest.raises(ConfigError, match="expected epoch "):
        loader.set_epoch(epoch)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("drop_last", 'tail="drop"'),
        ("sampler", "shuffle"),
        ("collate_fn", "__getitem__"),
        ("pin_memory", "adapters"),
        ("prefetch_factor", "prefetch"),
        ("timeout", "timeout_s"),
        ("places", "adapters.paddle"),
    ],
)
def test_names_of_other_loaders_are_answered_with_ours(name, remedy):
    with pytest.raises(ConfigError, match=f"no {name}.*{remedy}"):
        DataLoader(Squares(5), **{name: True})


def test_names_of_nobody_are_an_error_of_the_call():
    with pytest.raises(TypeError, match="unexpected keyword argument 'bach_size'"):
        DataLoader(Squares(5), bach_size=3)


@pytest.mark.parametrize("what", ["a.recordio", b"a.recordio", Path("a.recordio"), {"x": [1, 2]}])
def test_paths_and_columns_are_no_data_sets(what):
    for dataset in (what, mix([(what, 1)])):
        with pytest.raises(ConfigError, match="RecordFiles"):
            DataLoader(dataset, 4)


@pytest.fixture
def small(tmp_path):
    """Two files of 100 samples of 8 bytes."""
    schema = Schema((Field("label", "int64"),))
    codec = TypedCodec(schema)
    for name in "ab":
        with RecordWriter(tmp_path / name) as writer:
            for i in range(100):
                writer.write(codec.encode({"label": i}))
    return [RecordFiles(tmp_path / name, schema) for name in "ab"]


def test_workers_need_no_setting_for_small_sets(small):
    with DataLoader(mix([(each, 1) for each in small]), 10, shuffle=True, num_workers=1) as loader:
        assert sorted(labels(loader)) == sorted([*range(100), *range(100)])
    with DataLoader(small[0], 10, shuffle=True, num_workers=1, prefetch=200) as loader:
        assert sorted(labels(loader)) == list(range(100))


def test_weights_too_fine_are_answered_with_ones_that_are_not():
    weights = [0.123456789, 0.1, Fraction(1, 3)]
    with pytest.raises(ConfigError, match="round") as caught:
        mix([(Squares(5), weight) for weight in weights])
    rounded = [round(float(weight) / float(sum(weights)), 5) for weight in weights]
    assert str(rounded) in str(caught.value)
    mix([(Squares(5), weight) for weight in rounded])


def test_a_loader_that_is_sent_elsewhere_says_what_to_send():
    with DataLoader(Squares(3)) as loader:
        for send in (pickle.dumps, copy.deepcopy):
            with pytest.raises(
                TypeError, match=r"cannot be sent to another process; .* state_dict"
            ):
                send(loader)
