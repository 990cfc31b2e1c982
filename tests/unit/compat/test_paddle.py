"""The rest of the older library's names: feeders, files of trainers, loaders of old names."""

import itertools
import os
import pickle

import numpy as np
import pytest

from trainfeed.compat import paddle
from trainfeed.compat.paddle import fluid
from trainfeed.errors import ConfigError, FormatError, NotFoundError, SampleShapeError
from trainfeed.recordio import RecordWriter


def numbers(n):
    return lambda: iter(range(n))


def test_mnist_says_where_its_files_belong(tmp_path, monkeypatch):
    monkeypatch.setattr(paddle.dataset.common, "DATA_HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match="train-images-idx3-ubyte"):
        paddle.dataset.mnist.train()
    with pytest.raises(NotFoundError, match="t10k-images-idx3-ubyte"):
        paddle.dataset.mnist.test()


def test_record_files_are_read_ahead(tmp_path):
    with RecordWriter(tmp_path / "a") as writer:
        for i in range(5):
            writer.write(pickle.dumps(i))
    creator = paddle.reader.creator
    assert list(creator.recordio(str(tmp_path / "a"), decode=pickle.loads)()) == list(range(5))
    assert {type(record) for record in creator.RecordIO(str(tmp_path / "a"))()} == {bytes}


def test_samples_are_split_into_files_of_exact_sizes(tmp_path):
    common = paddle.dataset.common
    common.split(numbers(10), 3, str(tmp_path / "%05d.pickle"))
    lists = [pickle.loads(path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    assert lists == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    common.split(numbers(0), 3, str(tmp_path / "none-%05d"))
    assert not list(tmp_path.glob("none-*"))
    with pytest.raises(TypeError, match="dumper"):
        common.split(numbers(1), 3, dumper=None)
    with pytest.raises(ValueError, match="batch_size"):
        common.split(numbers(1), 0)


def test_every_file_is_of_one_trainer(tmp_path):
    common = paddle.dataset.common
    common.split(numbers(10), 3, str(tmp_path / "%05d.pickle"))
    pattern = str(tmp_path / "*.pickle")
    for count in (1, 2, 3, 4):
        parts = [
            list(common.cluster_files_reader(pattern, count, i, loader=pickle.load)())
            for i in range(count)
        ]
        assert sorted(itertools.chain.from_iterable(parts)) == list(range(10))
        assert all(parts)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("*", 2, 0), "pass loader=pickle.load"),
        (("*", 2, 2, pickle.load), "trainer from 0 to 1"),
        (("*", 2, -1, pickle.load), "trainer from 0 to 1"),
        (("*", 5, 0, pickle.load), "a file for each"),
    ],
)
def test_a_trainer_without_files_is_told(tmp_path, arguments, error):
    paddle.dataset.common.split(numbers(10), 3, str(tmp_path / "%05d.pickle"))
    pattern, *rest = arguments
    with pytest.raises(ConfigError, match=error):
        paddle.dataset.common.cluster_files_reader(str(tmp_path / pattern), *rest)
    with pytest.raises(NotFoundError):
        paddle.dataset.common.cluster_files_reader(str(tmp_path / "x*"), 1, 0, pickle.load)


class Variable:
    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, shape, dtype


def test_a_feeder_names_columns_and_gives_them_type_and_shape():
    variables = [Variable("image", [-1, 2, 2], "float32"), Variable("label", [-1, 1], "int64")]
    feeder = fluid.DataFeeder(variables, fluid.CPUPlace())
    fed = feeder.feed([([1, 2, 3, 4], 5), ([0, 0, 0, 0], 6)])
    assert {name: (a.shape, str(a.dtype)) for name, a in fed.items()} == {
        "image": ((2, 2, 2), "float32"),
        "label": ((2, 1), "int64"),
    }
    assert feeder.feed([([1, 2, 3, 4], 5)])["label"].tolist() == [[5]]
    with pytest.raises(SampleShapeError, match=r"of shape \(2, 2\) for 'image', got \(3,\)"):
        feeder.feed([([1, 2, 3], 5)])
    with pytest.raises(SampleShapeError, match="expected 2 columns"):
        feeder.feed([(1,)])
    with pytest.raises(ValueError, match="expected samples of shape"):
        feeder.feed([([1, 2, 3], 5)])
    with pytest.raises(SampleShapeError, match=r"of shape \(2, 2\) for 'image', got \(1, 4\)"):
        feeder.feed([([[1, 2, 3, 4]], 5)])
    sequences = Variable("words", [-1, 1], "int64")
    sequences.lod_level = 2
    with pytest.raises(ConfigError, match="expected 'words' with lod_level 0, got 2"):
        fluid.DataFeeder([sequences])
    with pytest.raises(SampleShapeError, match=r"column 0: .* pad sequences"):
        fluid.DataFeeder(["x"]).feed([([[1, 2], [3]],), ([[4]],)])
    reader = fluid.DataFeeder(["x"]).decorate_reader(paddle.batch(numbers(3), 2))
    assert [columns["x"].tolist() for columns in reader()] == [[0, 1], [2]]
    with pytest.raises(ValueError, match="multi_devices"):
        feeder.decorate_reader(numbers(1), multi_devices=True)


def test_the_older_loader_has_the_older_names():
    loader = fluid.io.PyReader(capacity=2)
    loader.decorate_sample_generator(lambda: ((i,) for i in range(4)), 2)
    assert [x.tolist() for (x,) in loader] == [[0, 1], [2, 3]]
    loader.decorate_sample_list_generator(paddle.batch(numbers(3), 2), fluid.CPUPlace())
    assert [x.tolist() for (x,) in loader] == [[0, 1], [2]]
    loader.decorate_batch_generator(lambda: iter([np.zeros(3)]))
    assert [x.shape for (x,) in loader] == [(3,)]


def test_a_loop_of_start_and_reset_ends_as_the_original_does():
    loader = fluid.io.PyReader(feed_list=["x"], capacity=2, iterable=False)
    loader.decorate_sample_list_generator(paddle.batch(numbers(5), 2))
    epochs = []
    for _ in range(2):
        loader.start()
        epochs.append([])
        while True:
            try:
                ((batch),) = loader.read_next()
            except fluid.core.EOFException:
                loader.reset()
                break
            epochs[-1] += batch["x"].tolist()
    assert epochs == [[0, 1, 2, 3, 4]] * 2
    with pytest.raises(AttributeError, match="builds no network"):
        fluid.core.LoDTensor  # noqa: B018 - asking is the test


def test_a_gpu_is_refused_wherever_it_is_named():
    gpu = fluid.CUDAPlace(0)
    loader = fluid.io.DataLoader.from_generator(capacity=2)
    with pytest.raises(ConfigError, match="gpu:0"):
        loader.set_batch_generator(numbers(1), places=gpu)
    with pytest.raises(ConfigError, match="gpu:0"), fluid.dygraph.guard(gpu):
        pass
    with pytest.raises(ConfigError, match="gpu:0"):
        fluid.dygraph.enable_dygraph(gpu)
    fluid.dygraph.enable_dygraph()


@pytest.mark.timeout(30)
def test_a_pipe_among_the_files_of_a_trainer_is_refused_and_not_waited_for(tmp_path):
    common = paddle.dataset.common
    common.split(numbers(3), 3, str(tmp_path / "%05d.pickle"))
    os.mkfifo(tmp_path / "00001.pickle")
    read = common.cluster_files_reader(str(tmp_path / "*"), 1, 0, loader=pickle.load)()
    assert list(itertools.islice(read, 3)) == [0, 1, 2]
    with pytest.raises(FormatError, match=r"expected a plain file, got a pipe in .*00001\.pickle"):
        next(read)
