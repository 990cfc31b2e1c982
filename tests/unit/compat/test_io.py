"""paddle.io: data sets, samplers and the loader over them, with the original's orders."""

import gc
import itertools
import json
import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest

from trainfeed.compat import paddle
from trainfeed.compat.paddle import fluid, io
from trainfeed.errors import ConfigError, LoaderError, SampleShapeError, WorkerDiedError

WAIT_S = 30


@pytest.fixture(autouse=True)
def nothing_left():
    threads = set(threading.enumerate())
    yield
    gc.collect()
    for thread in set(threading.enumerate()) - threads:
        thread.join(WAIT_S)
    assert not multiprocessing.active_children()


class Numbered(io.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.full(3, i, np.float32), i


class Listed(io.IterableDataset):
    """Samples that do not ask which worker they are in."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return (Numbered(self.n)[i] for i in range(self.n))


class Split(io.IterableDataset):
    """Samples that are divided as the original's documentation shows."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = io.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for i in range(first, self.n, step):
            yield np.full(3, i, np.float32), i


def labels(loader):
    return [np.asarray(label).tolist() for _, label in loader]


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_numbered_samples_come_in_order_whatever_the_workers(num_workers):
    settings = {"batch_size": 4, "num_workers": num_workers}
    loader = io.DataLoader(Numbered(10), **settings)
    assert [image.shape for image, _ in loader] == [(4, 3), (4, 3), (2, 3)]
    assert labels(loader) == labels(loader()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3
    dropping = io.DataLoader(Numbered(10), drop_last=True, **settings)
    assert labels(dropping) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(dropping) == 2
    assert labels(io.DataLoader(Numbered(3), batch_size=None, num_workers=num_workers)) == [0, 1, 2]
    assert labels(io.DataLoader(Numbered(0), **settings)) == []


REAL = [
    [[[5, 4, 1], [2, 9, 6], [7, 0, 3], [8]], [[3, 8, 2], [1, 9, 4], [0, 6, 7], [5]]],
    [[[1, 1], [1, 4], [4, 4], [1]], [[2, 1], [2, 1], [1, 4], [4]]],
    [[[4, 1], [5, 4], [7]], [[6, 0], [0, 2], [4]]],
]


ORDERS = [
    (lambda: {"dataset": Numbered(10), "shuffle": True, "batch_size": 3}, "shuffled"),
    (lambda: {"sampler": io.RandomSampler(Numbered(9), True, 5), "batch_size": 2}, "replaced"),
    (lambda: {"sampler": io.SubsetRandomSampler([4, 2, 8, 6]), "batch_size": 3}, "subset"),
    (
        lambda: {"sampler": io.WeightedRandomSampler(np.array([0.1, 0.5, 0, 0.4]), 5)},
        "weighted",
    ),
]


def test_random_orders_are_those_of_the_original():
    np.random.seed(3)  # noqa: NPY002
    samplers = [
        io.BatchSampler(Numbered(10), shuffle=True, batch_size=3),
        io.BatchSampler(sampler=io.WeightedRandomSampler([0.1, 0.5, 0.2, 0, 0.3], 7), batch_size=2),
        io.BatchSampler(sampler=io.RandomSampler(Numbered(9), True, 5), batch_size=2),
    ]
    loaders = [io.DataLoader(Numbered(10), batch_sampler=sampler) for sampler in samplers]
    # What PaddlePaddle 3.3.1 gives.
    assert [[labels(loader), labels(loader)] for loader in loaders] == REAL


@pytest.mark.parametrize("make", [make for make, _ in ORDERS], ids=[name for _, name in ORDERS])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_pass_of_a_random_sampler_goes_on_where_it_was_left(make, num_workers):
    sampler = io.BatchSampler(**make())
    loader = io.DataLoader(Numbered(10), batch_sampler=sampler, num_workers=num_workers)
    np.random.seed(5)  # noqa: NPY002 (what samplers draw from)
    whole = labels(loader)
    np.random.seed(5)  # noqa: NPY002
    batches = iter(loader)
    taken = [next(batches)[1].tolist() for _ in whole[:-1]]
    state = json.loads(json.dumps(loader.state_dict()))
    batches.close()
    assert taken == whole[:-1]
    np.random.seed(99)  # noqa: NPY002
    drawn = np.random.get_state()[1].tolist()  # noqa: NPY002
    other = io.DataLoader(Numbered(10), batch_sampler=io.BatchSampler(**make()), num_workers=0)
    other.load_state_dict(state)
    assert labels(other) == whole[-1:]
    assert np.random.get_state()[1].tolist() == drawn  # noqa: NPY002
    assert len(labels(other)) == len(whole)


@pytest.mark.parametrize("dataset", [Numbered, Listed])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_state_goes_on_behind_what_was_handed_over(dataset, num_workers):
    def make():
        return io.DataLoader(dataset(11), batch_size=2, num_workers=num_workers)

    whole = labels(make())
    for position in range(len(whole)):
        loader = make()
        batches = iter(loader)
        taken = [next(batches)[1].tolist() for _ in range(position)]
        state = loader.state_dict()
        batches.close()
        other = make()
        other.load_state_dict(state)
        assert taken + labels(other) == whole
        assert labels(other) == whole


def test_the_end_of_a_pass_is_the_beginning_of_the_next():
    loader = io.DataLoader(Numbered(4), batch_size=2)
    for _ in loader:
        state = loader.state_dict()
    assert state == loader.state_dict() == {**state, "epoch": 1, "position": 0}
    other = io.DataLoader(Numbered(4), batch_size=2)
    other.load_state_dict(state)
    assert labels(other) == [[0, 1], [2, 3]]


def test_ranks_go_on_in_the_epoch_of_the_state():
    def make():
        sampler = io.DistributedBatchSampler(Numbered(12), 2, 2, 1, shuffle=True)
        return io.DataLoader(Numbered(12), batch_sampler=sampler)

    loader = make()
    epochs = [labels(loader) for _ in range(3)]
    assert epochs[1] != epochs[2]
    loader = make()
    labels(loader)
    batches = iter(loader)
    assert next(batches)[1].tolist() == epochs[1][0]
    state = loader.state_dict()
    batches.close()
    other = make()
    other.load_state_dict(state)
    assert [labels(other), labels(other)] == [epochs[1][1:], epochs[2]]


def test_a_state_of_another_order_is_refused():
    loader = io.DataLoader(Numbered(10), batch_size=2)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    batches.close()
    other = io.DataLoader(Numbered(10), batch_size=3)
    other.load_state_dict(state)
    with pytest.raises(ConfigError, match="numbers of the 1 batches before the state again"):
        iter(other)
    for wrong in ({}, None, {**state, "position": -1}, {**state, "generator": {"key": "!"}}):
        with pytest.raises(ConfigError, match="expected"):
            other.load_state_dict(wrong)


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_every_sample_of_an_iterable_set_comes_once(num_workers):
    for dataset in (Listed(11), Split(11)):
        loader = io.DataLoader(dataset, batch_size=2, num_workers=num_workers)
        got = labels(loader)
        assert got == labels(loader)
        assert sorted(itertools.chain(*got)) == list(range(11))
    # Worker by worker in turn, as the original gives what is divided.
    if num_workers == 2:
        assert got == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
        dropping = io.DataLoader(Split(11), batch_size=2, num_workers=2, drop_last=True)
        assert labels(dropping) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10]]
    assert labels(io.DataLoader(Listed(2), batch_size=None, num_workers=num_workers)) == [0, 1]
    assert labels(io.DataLoader(Listed(3), batch_size=2)) == [[0, 1], [2]]


def test_a_set_that_asks_for_its_worker_too_late_is_refused():
    class Late(io.IterableDataset):
        def __iter__(self):
            yield 0
            io.get_worker_info()
            yield 1

    with pytest.raises(LoaderError, match=r"get_worker_info\(\) before its first sample"):
        list(io.DataLoader(Late(), num_workers=2))
    assert [int(x[0]) for x in io.DataLoader(Late(), num_workers=1)] == [0, 1]


class OfWorker(Numbered):
    def __getitem__(self, i):
        info = io.get_worker_info()
        return i, os.getpid(), -1 if info is None else info.id, self.n


def test_a_worker_is_begun_by_its_function_and_knows_its_number():
    def begin(number):
        info = io.get_worker_info()
        assert info.id == number
        assert info.num_workers == 2
        info.dataset.n += 100 * (number + 1)

    loader = io.DataLoader(OfWorker(20), num_workers=2, worker_init_fn=begin)
    for _, pid, number, n in loader:
        assert pid[0] != os.getpid()
        assert n[0] == 20 + 100 * (number[0] + 1)
    assert io.get_worker_info() is None
    assert {int(number[0]) for *_, number, _ in io.DataLoader(OfWorker(3))} == {-1}


def taken_into(got, batches):
    for batch in batches:
        got.append(batch)
    return []


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_batches_come_before_an_error_of_the_set(num_workers):
    class Failing(Numbered):
        def __getitem__(self, i):
            if i == 6:
                raise ZeroDivisionError("of sample 6")
            return super().__getitem__(i)

    class FailingListed(Listed):
        def __iter__(self):
            return (Failing(self.n)[i] for i in range(self.n))

    for dataset, good in ((Failing(10), 3), (FailingListed(10), 3 if num_workers < 2 else 2)):
        got = []
        batches = iter(io.DataLoader(dataset, batch_size=2, num_workers=num_workers))
        with pytest.raises(ZeroDivisionError, match="of sample 6"):
            got.extend(taken_into(got, batches))
        assert len(got) == good


@pytest.mark.parametrize("dataset", [Numbered, Listed])
def test_a_worker_that_is_killed_is_told(dataset):
    def begin(number):
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    loader = io.DataLoader(dataset(100), num_workers=1, worker_init_fn=begin)
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        list(loader)


@pytest.mark.parametrize("dataset", [Numbered, Listed])
def test_a_batch_that_takes_too_long_is_told(dataset):
    release = multiprocessing.get_context("fork").Event()

    def collate(samples):
        release.wait(WAIT_S)
        return samples

    loader = io.DataLoader(dataset(4), num_workers=2, timeout=0.1, collate_fn=collate)
    with pytest.raises(LoaderError, match=r"a batch within 0.1 s, .* raise timeout"):
        next(iter(loader))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_collate_function_makes_the_batches(num_workers):
    loader = io.DataLoader(
        Numbered(5),
        batch_size=2,
        collate_fn=lambda s: sum(i for _, i in s),
        num_workers=num_workers,
    )
    assert list(loader) == [1, 5, 4]
    loader = io.DataLoader(Numbered(2), batch_size=None, collate_fn=lambda s: s[1] * 10)
    assert list(loader) == [0, 10]


def test_samples_are_collated_as_the_original_does():
    sample = {"x": np.ones(2), "y": [1, (2.5, "a")], "z": b"b", "t": np.float32(3)}
    got = io.default_collate_fn([sample, sample])
    assert got["x"].shape == (2, 2)
    assert got["y"][0].tolist() == [1, 1]
    assert got["y"][1][0].tolist() == [2.5, 2.5]
    assert (got["y"][1][1], got["z"]) == (["a", "a"], [b"b", b"b"])
    assert got["t"].dtype == np.float32
    assert io.default_convert_fn({"x": (1, "a")}) == {"x": [1, "a"]}
    for wrong, message in (
        ([(1, 2), (1,)], "a batch, sample 1: expected 2 columns"),
        ([{"x": 1}, {"y": 1}], "a batch, sample 1: expected the fields"),
        ([np.ones(2), np.ones(3)], "sample 1 is the first of another; give a collate_fn"),
        ([(1,), 2], "a batch, sample 1: expected 1 columns like sample 0, got int"),
        ([{"x": (1, np.ones(2))}, {"x": (1, np.ones(3))}], "a batch, field 'x', field 1: expected"),
    ):
        with pytest.raises(SampleShapeError, match=message):
            io.default_collate_fn(wrong)
    with pytest.raises(TypeError, match="give a collate_fn"):
        io.default_collate_fn([None, None])


def test_a_feed_list_gives_what_static_graphs_take():
    names = ["image", fluid.DataFeeder]
    loader = io.DataLoader(
        Numbered(5),
        feed_list=["image", "label"],
        places=[paddle.fluid.CPUPlace()] * 2,
        return_list=False,
        batch_size=2,
        drop_last=True,
    )
    ((one, two),) = loader
    assert list(one) == ["image", "label"]
    assert (one["label"].tolist(), two["label"].tolist()) == ([0, 1], [2, 3])
    loader = io.DataLoader(Numbered(2), feed_list=names[:1], return_list=False)
    with pytest.raises(ValueError, match="expected 1 columns"):
        list(loader)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"batch_size": 0}, "batch_size from 1"),
        ({"num_workers": -1}, "num_workers from 0"),
        ({"prefetch_factor": 0}, "prefetch_factor from 1"),
        ({"timeout": -1}, "timeout from 0"),
        ({"return_list": False}, "a feed_list"),
        ({"batch_sampler": [[0]], "shuffle": True}, "either batch_sampler, or"),
        ({"dataset": Listed(3), "shuffle": True}, "IterableDataset"),
        ({"dataset": Listed(3), "batch_sampler": [[0]]}, "IterableDataset"),
    ],
)
def test_settings_that_contradict_are_refused(settings, error):
    with pytest.raises(ValueError, match=error):
        io.DataLoader(**{"dataset": Numbered(3), **settings})


def test_a_loader_over_an_iterable_set_has_no_length_and_a_gpu_is_refused():
    with pytest.raises(TypeError, match="count its batches"):
        len(io.DataLoader(Listed(3)))
    with pytest.raises(ConfigError, match="gpu:0"):
        io.DataLoader(Numbered(3), places=fluid.CUDAPlace(0))
    assert fluid.io.DataLoader is io.DataLoader
    assert (
        list(fluid.io.DataLoader.from_generator(capacity=1).set_batch_generator(lambda: iter([])))
        == []
    )


def test_leaving_early_leaves_nothing():
    for dataset in (Numbered(1000), Listed(1000)):
        for num_workers in (0, 2):
            for _ in io.DataLoader(dataset, num_workers=num_workers):
                break


def test_data_sets_are_put_together():
    a, b = Numbered(3), Numbered(4)
    assert [int(io.ConcatDataset([a, b])[i][1]) for i in range(-7, 7)] == [0, 1, 2, 0, 1, 2, 3] * 2
    with pytest.raises(IndexError):
        io.ConcatDataset([a, b])[7]
    assert len(io.ComposeDataset([a, a])[1]) == 4
    assert len(list(io.ChainDataset([Listed(3), Listed(4)]))) == 7
    assert io.Subset(b, [3, 1])[0][1] == 3
    tensors = io.TensorDataset([np.arange(4), np.arange(8).reshape(4, 2)])
    assert (len(tensors), tensors[1][1].tolist()) == (4, [2, 3])
    for make in (
        lambda: io.ComposeDataset([a, b]),
        lambda: io.ComposeDataset([Listed(3)]),
        lambda: io.ConcatDataset([]),
        lambda: io.ChainDataset([a]),
        lambda: io.TensorDataset([np.arange(3), np.arange(4)]),
    ):
        with pytest.raises(ValueError, match="expected"):
            make()
    for missing in (
        lambda: io.Dataset()[0],
        lambda: len(io.Dataset()),
        lambda: iter(io.IterableDataset()),
    ):
        with pytest.raises(NotImplementedError, match="there is none"):
            missing()


@pytest.mark.parametrize("lengths", [[3, 7], [0.25, 0.35, 0.4]])
def test_a_set_is_split_into_parts_without_a_common_sample(lengths):
    parts = io.random_split(Numbered(10), lengths)
    assert sorted(i for part in parts for _, i in part) == list(range(10))
    assert [len(part) for part in parts] in ([3, 7], [3, 3, 4])
    for wrong in ([3, 3], [-2, 12], [-0.2, 1.2]):
        with pytest.raises(ValueError, match="from 0 on with the sum 10"):
            io.random_split(Numbered(10), wrong)


@pytest.mark.parametrize(
    "make",
    [
        io.BatchSampler,
        lambda: io.BatchSampler(Numbered(3), [0]),
        lambda: io.BatchSampler(Listed(3)),
        lambda: io.BatchSampler(Numbered(3), batch_size=0),
        lambda: io.BatchSampler(Numbered(3), drop_last="no"),
        lambda: io.BatchSampler(sampler=3),
        lambda: io.RandomSampler(Numbered(3), num_samples=4),
        lambda: io.RandomSampler(Numbered(3), True, -1),
        lambda: io.WeightedRandomSampler([0, 0], 1),
        lambda: io.WeightedRandomSampler([1, 0], 2, False),
        lambda: io.WeightedRandomSampler([1, 0], 2, 5),
        lambda: io.SubsetRandomSampler([]),
    ],
)
def test_samplers_say_what_they_expect(make):
    with pytest.raises(ValueError, match="expected"):
        make()
