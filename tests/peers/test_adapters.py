"""Batches as tensors of the real frameworks."""

import gc
import weakref
from types import SimpleNamespace

import jax
import numpy as np
import paddle
import pytest
import tensorflow as tf
import torch

from tests.peers import made
from trainfeed import adapters
from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

SCHEMA = Schema(
    (
        Field("image", "uint8", (2, 3)),
        Field("label", "int64"),
        Field("weight", "float32", optional=True),
        Field("name", "str", optional=True),
        Field("path", "float64", (None, 2), optional=True),
    )
)


def objects(*values):
    boxed = np.empty(len(values), object)
    for i, value in enumerate(values):
        boxed[i] = value
    return boxed


def batch():
    return {
        "image": np.arange(18, dtype="u1").reshape(3, 2, 3),
        "label": np.array([5, -1, 7]),
        "weight": np.ma.MaskedArray(np.array([0.5, 9, 2], "f4"), [False, True, False]),
        "name": objects("a", None, "ü"),
        "path": objects(np.zeros((0, 2)), None, np.ones((2, 2))),
    }


class Loader(list):
    schema = SCHEMA


@pytest.fixture
def files(tmp_path):
    """Three samples, as record files."""
    codec, columns = TypedCodec(SCHEMA), batch()
    with RecordWriter(tmp_path / "r") as writer:
        for i in range(3):
            sample = {name: column[i] for name, column in columns.items()}
            sample["weight"] = None if i == 1 else np.asarray(sample["weight"])
            writer.write(codec.encode(sample))
    return RecordFiles(tmp_path / "r", SCHEMA)


class Lent(np.ndarray):
    """An array that can be watched."""


@pytest.fixture(params=["torch", "jax", "paddle"])
def adapt(request):
    return getattr(adapters, request.param)


def address(array):
    return array.__array_interface__["data"][0]


def test_numbers_arrive_with_dtype_shape_and_presence(adapt):
    (out,) = adapt(Loader([batch()]))
    expected = batch()
    assert np.asarray(out["image"]).dtype == np.uint8
    np.testing.assert_array_equal(np.asarray(out["image"]), expected["image"])
    np.testing.assert_array_equal(np.asarray(out["label"]), expected["label"])
    np.testing.assert_array_equal(np.asarray(out["weight"]), expected["weight"].data)
    assert np.asarray(out["weight_present"]).tolist() == [True, False, True]
    assert out["name"] == ["a", None, "ü"]
    assert [None if run is None else len(run) for run in out["path"]] == [0, None, 2]


@pytest.mark.parametrize("name", ["torch", "jax", "paddle", "tensorflow"])
def test_a_real_loader_gives_every_row_once_on_ranks_some_of_which_get_none(files, name):
    labels, paths, sizes = [], [], []
    for rank in range(4):
        with DataLoader(files, 1, rank=rank, world_size=4) as loader:
            for out in getattr(adapters, name)(loader):
                assert "valid" not in out
                sizes.append(len(np.asarray(out["weight_present"])))
                labels += np.asarray(out["label"]).tolist()
                paths += list(out["path"])
    assert sorted(labels) == [-1, 5, 7]
    assert (len(paths), sizes) == (3, [1, 1, 1, 0])


@pytest.mark.parametrize("name", ["torch", "jax", "paddle", "tensorflow"])
def test_rows_that_only_fill_a_batch_are_marked(files, name):
    with DataLoader(files, 2, tail="pad") as loader:
        valid = [np.asarray(out["valid"]).tolist() for out in getattr(adapters, name)(loader)]
    assert valid == [[True, True], [True, False]]


def test_torch_and_paddle_share_the_memory_of_a_batch():
    source = batch()
    (of_torch,) = adapters.torch([source])
    assert of_torch["image"].data_ptr() == address(source["image"])
    (of_paddle,) = adapters.paddle([source])
    assert of_paddle["image"].data_ptr() == address(source["image"])


@pytest.mark.parametrize("name", ["torch", "paddle"])
def test_lent_memory_lives_as_long_as_a_tensor_or_a_slice_of_it(name):
    memory = np.arange(12, dtype="i8").view(Lent)
    gone = weakref.ref(memory)
    (out,) = getattr(adapters, name)([{"x": memory.reshape(3, 4).view(np.ndarray)}])
    kept = out["x"][1:]
    del memory, out
    gc.collect()
    assert gone() is not None
    assert np.asarray(kept).sum() == sum(range(4, 12))
    del kept
    gc.collect()
    assert gone() is None


def test_read_only_batches_are_copied_for_torch_without_a_warning():
    source = np.arange(4)
    source.flags.writeable = False
    (out,) = adapters.torch([{"x": source}])
    assert out["x"].data_ptr() != address(source)


def test_torchs_data_loader_hands_batches_through():
    data = torch.utils.data.DataLoader(adapters.torch(Loader([batch()] * 3)), batch_size=None)
    assert [out["image"].shape for out in data] == [(3, 2, 3)] * 3
    assert len(adapters.torch([1, 2])) == 2


def test_tensorflow_gets_strings_ragged_tensors_and_presence():
    data = adapters.tensorflow(Loader([batch(), batch()]))
    assert data.element_spec["image"] == tf.TensorSpec((None, 2, 3), tf.uint8)
    out, _ = data.as_numpy_iterator()
    np.testing.assert_array_equal(out["image"], batch()["image"])
    assert out["label"].dtype == np.int64
    assert out["weight_present"].tolist() == [True, False, True]
    assert out["name"].tolist() == [b"a", b"", "ü".encode()]
    (first, _) = iter(data)
    assert first["path"].row_lengths().numpy().tolist() == [0, 0, 2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_state_is_gone_on_with_exactly(path, adapt, num_workers):
    with made.loader(path) as loader, made.loader(path, num_workers=num_workers) as other:
        batches = adapt(loader)
        begun = [next(it) for it in [iter(batches)] for _ in range(11)]
        resumed = adapt(other)
        resumed.load_state_dict(batches.state_dict())
        assert made.ids(begun) + made.ids(resumed) + made.ids(resumed) == made.order(path, 2)


def test_lists_of_arrays_arrive_as_lists_of_tensors(adapt):
    ((image, label),) = adapt([[np.ones((2, 3), "f4"), np.arange(2)]])
    assert (tuple(image.shape), label.tolist()) == ((2, 3), [0, 1])


def test_integers_that_jax_would_cut_are_refused():
    with pytest.raises(SampleShapeError, match="'x': expected int64 values of at most 32 bits"):
        list(adapters.jax([{"x": np.array([1 << 40])}]))
    (out,) = adapters.jax([{"x": np.array([7])}], device=jax.devices("cpu")[0])
    assert out["x"].dtype == np.int32


def test_arrays_of_all_processes_are_refused_where_the_last_one_may_differ_in_shape(path):
    """JAX would go on with arrays whose shape the processes do not agree on."""
    of_all = SimpleNamespace(is_fully_addressable=False)
    with (
        made.loader(path, 0, 2) as loader,
        pytest.raises(ConfigError, match=r'write trainfeed.DataLoader\(…, tail="drop"\)'),
    ):
        next(iter(adapters.jax(loader, device=of_all, check_ranks=False)))


def test_paddle_computes_with_the_batch():
    (out,) = adapters.paddle([{"x": np.ones((2, 3), "f4")}])
    assert float(paddle.sum(out["x"])) == 6.0
