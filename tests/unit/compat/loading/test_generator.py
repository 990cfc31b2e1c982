"""from_generator: three sources, two transports, one behaviour."""

import gc
import itertools
import mmap
import multiprocessing
import os
import signal
import threading
import traceback

import numpy as np
import pytest

from tests.support.shared_memory import named_segments
from trainfeed.compat.paddle.loading import GeneratorLoader, require_memory
from trainfeed.core import memory_group
from trainfeed.decorators import batch, cache, shuffle
from trainfeed.errors import (
    ConfigError,
    LoaderError,
    MemoryLimitError,
    PassEndedError,
    SampleShapeError,
    WorkerDiedError,
)
from trainfeed.readers import np_array

WAYS = [False, True]
WAIT_S = 30


@pytest.fixture(autouse=True)
def nothing_left():
    segments, threads = named_segments(), set(threading.enumerate())
    yield
    gc.collect()
    for thread in set(threading.enumerate()) - threads:
        thread.join(WAIT_S)
    assert set(threading.enumerate()) <= threads
    assert not multiprocessing.active_children()
    assert named_segments() <= segments


def samples(n=10):
    for i in range(n):
        yield np.full(3, i, np.float32), np.array([i])


def loader(use_multiprocess=False, **settings):
    settings = {"capacity": 4, **settings}
    return GeneratorLoader.from_generator(use_multiprocess=use_multiprocess, **settings)


@pytest.mark.parametrize("capacity", [None, 0, -1, 2.5, "3", True])
def test_a_capacity_is_needed(capacity):
    with pytest.raises(ValueError, match="capacity"):
        GeneratorLoader.from_generator(capacity=capacity)


def test_a_source_is_needed():
    with pytest.raises(LoaderError, match="none is set"):
        iter(loader())
    with pytest.raises(LoaderError, match="none is set"):
        loader()()


@pytest.mark.parametrize("way", WAYS)
def test_samples_are_batched_and_the_tail_is_dropped_unless_wanted(way):
    made = loader(way).set_sample_generator(samples, batch_size=4)
    assert [image.shape for image, label in made] == [(4, 3), (4, 3)]
    made.set_sample_generator(samples, batch_size=4, drop_last=False)
    got = list(made)
    assert [len(image) for image, label in got] == [4, 4, 2]
    assert got[2][1].tolist() == [[8], [9]]
    assert got[0][0].dtype == np.float32
    with pytest.raises(ValueError, match="batch_size"):
        made.set_sample_generator(samples, batch_size=0)


@pytest.mark.parametrize("way", WAYS)
def test_lists_of_samples_give_the_same_arrays(way):
    one = loader(way).set_sample_generator(samples, 4, drop_last=False)
    two = loader(way).set_sample_list_generator(batch(samples, 4))
    lists = loader(way).set_sample_list_generator(
        lambda: ([list(sample) for sample in items] for items in batch(samples, 4)())
    )
    for a, b, c in zip(one, two, lists, strict=True):
        assert equal(a, b)
        assert equal(a, c)


def equal(a, b):
    return len(a) == len(b) and all(
        x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("way", WAYS)
def test_batches_pass_through_with_their_types(way):
    batches = [
        (np.zeros((2, 3), np.float16), np.ones((2, 1), np.uint8)),
        [np.arange(60_000, dtype=np.int16), np.zeros(0)],
    ]
    made = loader(way).set_batch_generator(lambda: iter(batches))
    for got, expected in zip(made, batches, strict=True):
        assert isinstance(got, list)
        assert equal(got, list(expected))
    (got,) = loader(way).set_batch_generator(lambda: iter([{"x": np.arange(3)}]))
    assert got["x"].tolist() == [0, 1, 2]


def test_threads_and_processes_give_the_same_bytes():
    def noisy():
        for _ in range(20):
            yield np.random.random(5), np.random.randint(9)  # noqa: NPY002 (as users do)

    def taken(way):
        np.random.seed(1)  # noqa: NPY002
        return list(loader(way).set_sample_generator(noisy, 4))

    for a, b in zip(taken(False), taken(True), strict=True):
        assert equal(a, b)


@pytest.mark.parametrize("way", WAYS)
def test_every_epoch_is_whole_and_shuffled_anew(way):
    made = loader(way).set_sample_generator(shuffle(samples, 10), 5)
    epochs = [np.concatenate([label for _, label in made]).ravel().tolist() for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert epochs == [[int(label[0]) for _, label in shuffled()] for shuffled in [reader()] * 3]
    made.set_epoch(0)
    assert np.concatenate([label for _, label in made]).ravel().tolist() == epochs[0]


def reader():
    return shuffle(samples, 10)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_at_most_capacity_batches_are_ahead(way, capacity):
    drawn = mmap.mmap(-1, 8)

    def batches():
        for i in range(100):
            drawn[:8] = (i + 1).to_bytes(8)
            yield (np.full(20_000, i),)

    for number, (column,) in enumerate(loader(way, capacity=capacity).set_batch_generator(batches)):
        assert column[0] == number
        assert int.from_bytes(drawn[:8]) - (number + 1) <= capacity


@pytest.mark.parametrize("way", WAYS)
def test_good_batches_come_before_the_original_exception(way):
    def batches():
        for i in range(3):
            yield (np.full(50_000, i),)
        raise ZeroDivisionError("of the generator")

    made, got = iter(loader(way).set_batch_generator(batches)), []
    with pytest.raises(ZeroDivisionError, match="of the generator") as caught:
        got.extend(taken_into(made, got))
    assert [int(column[0]) for (column,) in got] == [0, 1, 2]
    assert "in batches" in "".join(traceback.format_exception(caught.value))


def taken_into(batches, got):
    for item in batches:
        got.append(item)
    return []


@pytest.mark.parametrize("how", ["SIGKILL", "exit 0", "exit 3"])
def test_a_dead_child_is_told_after_its_good_batches(how):
    delivered = multiprocessing.get_context("fork").Event()

    def batches():
        for i in range(3):
            yield (np.full(50_000, i),)
        delivered.wait(WAIT_S)
        if how == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(int(how[-1]))

    made = iter(loader(True).set_batch_generator(batches))
    assert [int(next(made)[0][0]) for _ in range(3)] == [0, 1, 2]
    delivered.set()
    with pytest.raises(WorkerDiedError, match=how.replace("exit", "status")):
        next(made)


@pytest.mark.parametrize("way", WAYS)
def test_leaving_and_two_passes_at_once(way):
    made = loader(way).set_batch_generator(lambda: ((np.array([i]),) for i in itertools.count()))
    for _ in range(3):
        for _batch in made():
            break
    one, two = iter(made), iter(made)
    assert [int(next(one)[0][0]) for _ in range(3)] == [0, 1, 2]
    assert int(next(two)[0][0]) == 0
    assert int(next(one)[0][0]) == 3
    one.close()
    two.close()


def test_a_child_really_works():
    made = loader(True).set_batch_generator(lambda: iter([(np.array([os.getpid()]),)]))
    assert next(iter(made))[0][0] != os.getpid()


def test_batches_of_a_child_can_be_kept_and_written_to():
    made = loader(True).set_batch_generator(lambda: ((np.full(50_000, i),) for i in range(6)))
    kept = [column[10:20] for (column,) in made]
    kept[0][:] = 9
    assert [int(part.sum()) for part in kept] == [90, 10, 20, 30, 40, 50]


@pytest.mark.parametrize("way", WAYS)
def test_ragged_samples_say_where(way):
    made = loader(way).set_sample_generator(lambda: ((np.zeros(i),) for i in range(4)), 2)
    with pytest.raises(SampleShapeError, match="batch 0, column 0"):
        list(made)


def test_a_batched_reader_is_not_batched_twice():
    with pytest.raises(ValueError, match="batches already"):
        loader().set_sample_generator(batch(samples, 2), 2)
    made = loader().set_sample_generator(lambda: iter([[(1, 2), (3, 4)]] * 2), 2)
    with pytest.raises(LoaderError, match="set_sample_list_generator"):
        list(made)


def test_blocks_are_not_taken_apart():
    array = np.arange(12.0).reshape(6, 2)
    made = loader().set_sample_generator(np_array(array), 2)
    got = [column for (column,) in made]
    assert np.concatenate(got).tolist() == array.tolist()
    assert all(np.shares_memory(column, array) for column in got)
    assert [
        len(column) for (column,) in loader().set_sample_list_generator(batch(np_array(array), 4))
    ] == [4, 2]


def test_mappings_stay_mappings():
    made = loader().set_sample_generator(lambda: iter([{"x": 1, "y": 2.0}] * 2), 2)
    (got,) = made
    assert {name: column.tolist() for name, column in got.items()} == {"x": [1, 1], "y": [2.0] * 2}


@pytest.mark.parametrize("items", [[{"x": 1}, {"x": 1, "y": 2}], [{"x": 1, "y": 2}, {"x": 1}], []])
@pytest.mark.parametrize("way", WAYS)
def test_mappings_with_other_fields_are_refused(way, items):
    made = loader(way).set_sample_list_generator(lambda: iter([items]))
    with pytest.raises(SampleShapeError, match="batch 0"):
        list(made)


@pytest.mark.parametrize("items", [[2**53 + 1, 0.5], [1, np.uint64(2)], [True, 2]])
def test_values_of_several_types_are_refused(items):
    with pytest.raises(SampleShapeError, match="expected values of one type"):
        list(loader().set_sample_generator(lambda: iter(items), 2))


def test_what_is_no_list_of_samples_is_told():
    with pytest.raises(SampleShapeError, match="batch 0: expected a list of samples, got int"):
        list(loader().set_sample_list_generator(lambda: iter([7])))


class Named:
    def __init__(self, name):
        self.name = name


def test_a_feed_list_names_the_columns():
    made = loader(feed_list=[Named("image"), "label"]).set_sample_generator(samples, 5)
    first, _ = made
    assert [list(columns) for columns in first] == [["image", "label"]]
    made = loader(feed_list=["image", "label"], return_list=True).set_sample_generator(samples, 5)
    ((image, label),) = next(iter(made))
    assert (image.shape, label.shape) == ((5, 3), (5, 1))
    made = loader(feed_list=["image"]).set_sample_generator(samples, 5)
    with pytest.raises(LoaderError, match="expected 1 columns"):
        list(made)
    assert list(loader(iterable=False).set_sample_generator(samples, 5))


class Variable:
    def __init__(self, name, shape, dtype, lod_level=0):
        self.name, self.shape, self.dtype, self.lod_level = name, shape, dtype, lod_level


IMAGE = Variable("image", [None, 1, 28, 28], "float32")
LABEL = Variable("label", (-1, 1), "int64")


def flat_images():
    for i in range(4):
        yield np.full(784, i, np.float64), np.int32(i)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("as_lists", [False, True])
def test_samples_get_the_shape_and_the_type_of_their_variables(way, as_lists):
    made = loader(way, feed_list=[IMAGE, LABEL], return_list=True)
    if as_lists:
        made.set_sample_list_generator(batch(flat_images, 2))
    else:
        made.set_sample_generator(flat_images, 2)
    got = [(image.shape, image.dtype, label.tolist(), label.dtype) for ((image, label),) in made]
    # What PaddlePaddle 3.3.1 gives.
    expected = ((2, 1, 28, 28), np.float32)
    assert got == [(*expected, [[0], [1]], np.int64), (*expected, [[2], [3]], np.int64)]


@pytest.mark.parametrize(
    "dtype", ["VarType.FP32", "paddle.float32", np.float32, "DataType.FLOAT32"]
)
def test_types_are_known_under_the_names_of_the_original(dtype):
    made = loader(feed_list=[Variable("x", [-1], dtype)]).set_sample_generator(
        lambda: iter("ab"), 2
    )
    with pytest.raises(SampleShapeError, match="expected float32 for 'x', got 'a'"):
        list(made)
    with pytest.raises(ConfigError, match="a type that numpy has for 'x'"):
        loader(feed_list=[Variable("x", [-1], "paddle.bfloat16")])


@pytest.mark.parametrize(
    ("shape", "dtype", "sample", "error"),
    [
        ([-1, 2, 2], None, np.zeros(3), r"of shape \(2, 2\) for 'x', got \(3,\)"),
        ([-1, 4, 1], None, np.zeros((1, 4)), r"of shape \(4, 1\) for 'x', got \(1, 4\)"),
        ([-1, -1, -1], None, np.zeros(4), r"of shape \(-1, -1\) for 'x'"),
        ([-1], "int64", 0.5, r"int64 holds exactly for 'x', got np.float64\(0.5\)"),
        ([-1], "uint8", 300, r"uint8 holds exactly for 'x', got np.int64\(300\)"),
        ([-1], "int32", np.nan, "int32 holds exactly"),
    ],
)
def test_samples_that_do_not_suit_their_variable_are_refused(shape, dtype, sample, error):
    made = loader(feed_list=[Variable("x", shape, dtype)])
    with pytest.raises(ValueError, match=error) as caught:
        list(made.set_sample_generator(lambda: iter([(sample,)] * 2), 2))
    assert isinstance(caught.value, SampleShapeError)


def test_sizes_that_are_not_said_are_any():
    for sample, shape in ((np.zeros((2, 6)), (2, 2, 6)), (np.zeros(12), (2, 2, 6))):
        made = loader(feed_list=[Variable("x", [-1, 2, -1], None)], return_list=True)
        (((column,),),) = made.set_sample_generator(lambda sample=sample: iter([(sample,)] * 2), 2)
        assert column.shape == shape


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros((2, 4), np.float32), r"batch of shape \('batch', 2, 2\) for 'x', got \(2, 4\)"),
        (np.zeros((), np.float32), r"batch of shape .* got \(\)"),
        (np.zeros((5, 2, 2)), "batch of float32 for 'x', got float64"),
    ],
)
def test_batches_that_do_not_suit_their_variables_are_refused_as_an_executor_does(array, error):
    made = loader(feed_list=[Variable("x", [-1, 2, 2], "float32")])
    made.set_batch_generator(lambda: iter([[np.zeros((3, 2, 2), np.float32)], [array]]))
    batches = iter(made)
    assert next(batches)[0]["x"].shape == (3, 2, 2)
    with pytest.raises(SampleShapeError, match=error):
        next(batches)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("column", [[[1, 2], [1]], {"x": [[1, 2], [1]]}])
def test_batches_of_lists_of_several_lengths_are_refused(way, column):
    batches = [[np.zeros(1)], column if isinstance(column, dict) else [column]]
    made = iter(loader(way).set_batch_generator(lambda: iter(batches)))
    next(made)
    with pytest.raises(SampleShapeError, match=r"batch 1: .* pad sequences"):
        next(made)


@pytest.mark.parametrize("level", [1, 2])
def test_sequences_of_several_lengths_are_refused_with_what_to_do(level):
    with pytest.raises(ConfigError, match=f"lod_level 0, got {level}: .* pad them"):
        loader(feed_list=[Variable("x", [-1, 1], "int64", level)])


@pytest.mark.parametrize("way", WAYS)
def test_a_loader_that_is_not_iterable_is_started_read_and_reset(way):
    made = loader(way, feed_list=["image", "label"], iterable=False)
    with pytest.raises(LoaderError, match="none is set"):
        made.start()
    made.set_sample_generator(shuffle(samples, 10), 5)
    with pytest.raises(LoaderError, match=r"none was started; call start\(\)"):
        made.read_next()
    epochs = []
    for _ in range(2):
        made.start()
        with pytest.raises(LoaderError, match=r"call reset\(\)"):
            made.start()
        epochs.append([int(i) for _ in range(2) for i in made.read_next()[0]["label"].ravel()])
        for _ in range(2):
            with pytest.raises(PassEndedError, match=r"call reset\(\), and start\(\)"):
                made.read_next()
        made.reset()
        made.reset()
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs == [[int(label[0]) for _, label in reader()] for reader in [reader()] * 2]
    made.start()
    made.read_next()
    made.reset()


def test_an_iterable_loader_is_not_started_and_the_other_is_not_iterated():
    made = loader(feed_list=["image", "label"], iterable=False).set_sample_generator(samples, 5)
    assert made.iterable is False
    with pytest.raises(LoaderError, match=r"iterable=True for iterate it.* start\(\)"):
        iter(made)
    for made in (loader(iterable=False), loader(feed_list=["image"])):
        assert made.iterable is True
        for call in (made.start, made.read_next, made.reset):
            with pytest.raises(LoaderError, match=f"iterable=False for {call.__name__}"):
                call()


def test_what_a_started_pass_raises_comes_behind_its_batches():
    def one_and_error():
        yield [np.zeros(1)]
        raise ZeroDivisionError("of the reader")

    made = loader(feed_list=["x"], iterable=False).set_batch_generator(one_and_error)
    made.start()
    made.read_next()
    with pytest.raises(ZeroDivisionError, match="of the reader"):
        made.read_next()
    made.reset()


@pytest.mark.parametrize("way", WAYS)
def test_the_queue_says_how_many_batches_wait(way):
    made_all = multiprocessing.get_context("fork").Event()

    def batches():
        for i in range(4):
            yield [np.full(2, i)]
        made_all.set()

    made = loader(way, capacity=6).set_batch_generator(batches)
    assert (made.queue.size(), made.queue.capacity()) == (0, 6)
    taken = iter(made)
    next(taken)
    assert made_all.wait(WAIT_S)
    assert made.queue.size() == 3
    next(taken)
    assert made.queue.size() == 2
    taken.close()
    assert made.queue.size() == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_loader_reads_what_is_kept_once(way):
    drawn = mmap.mmap(-1, 8)

    def counted():
        drawn[:8] = (int.from_bytes(drawn[:8]) + 1).to_bytes(8)
        for _ in range(10):
            yield np.random.random(3), 1  # noqa: NPY002 (as users do)

    made = loader(way).set_sample_generator(cache(counted), 5)
    taken = iter(made)
    first = next(taken)[0].tolist()
    taken.close()
    epochs = [[image.tolist() for image, _ in made] for _ in range(3)]
    assert epochs == [epochs[0]] * 3
    assert epochs[0][0] == first
    assert int.from_bytes(drawn[:8]) == 1


def test_a_batch_that_grows_is_compared_with_the_memory_again(monkeypatch):
    monkeypatch.setattr("trainfeed.compat.paddle.loading.available_bytes", lambda: 100_000)
    made = loader(True).set_batch_generator(lambda: iter([[np.zeros(10)], [np.zeros(10_000)]]))
    batches = iter(made)
    assert len(next(batches)[0]) == 10
    with pytest.raises(MemoryLimitError, match="4 batches of 80000 bytes ahead"):
        next(batches)


def test_several_places_get_a_batch_each():
    cpus = ["cpu", "Place(cpu)"]
    for drop_last, expected in ((True, [2]), (False, [2, 1])):
        made = loader(feed_list=["image", "label"], drop_last=drop_last)
        made.set_sample_generator(samples, 3, places=cpus)
        assert [len(group) for group in made] == expected
    with pytest.raises(ConfigError, match="one place without a feed_list"):
        loader().set_sample_generator(samples, 3, places=cpus)


@pytest.mark.parametrize("places", ["Place(gpu:0)", ["cpu", "CUDAPlace(1)"], []])
def test_nothing_but_the_cpu_is_a_place(places):
    with pytest.raises(ConfigError, match="place"):
        loader(feed_list=["a"]).set_sample_generator(samples, 3, places=places)


def test_batches_that_do_not_fit_the_memory_are_refused_before_they_are_sent():
    made = loader(True, capacity=10**9).set_sample_generator(samples, 5)
    with pytest.raises(MemoryLimitError, match="lower capacity or the batch size"):
        list(made)
    assert memory_group.available_bytes() > 1 << 20
    require_memory(1, 1)


def test_the_memory_of_the_container_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    (tmp_path / "self").write_text("0::/\n")
    monkeypatch.setattr(memory_group, "_GROUPS", tmp_path / "self")
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path)
    assert memory_group.available_bytes() == 3000
    require_memory(1, 1000)
    with pytest.raises(MemoryLimitError, match="need 3003 bytes; 3000 are left"):
        require_memory(1, 1001)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_group.available_bytes() > 5000
