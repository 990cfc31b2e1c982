"""Readers that a user assigns: of samples or of batches, told apart, never batched twice."""

import itertools
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.compat.paddle import batch
from trainfeed.compat.plsc.entry import Entry
from trainfeed.compat.plsc.entry_readers import (
    AssignedReader,
    AssignedReaders,
    ReaderKind,
    Readers,
    SampleForm,
    custom_reader,
)
from trainfeed.decorators import shuffle
from trainfeed.errors import ConfigError, ReaderEndedError, SampleShapeError
from trainfeed.readers import np_array

SHAPE = (3, 2, 2)
FORM = SampleForm(SHAPE, 10)
BARE = SampleForm(SHAPE, 10, has_labels=False)


def image(n):
    return np.full(SHAPE, n, np.float32)


def samples(count=10):
    return lambda: ((image(n), n % 10) for n in range(count))


def by_hand(count=10, size=4):
    """A batch reader that does not say so, as ``paddle.batch`` of PaddlePaddle makes it."""

    def read():
        numbers = iter(range(count))
        while rows := [(image(n), n % 10) for n in itertools.islice(numbers, size)]:
            yield rows

    return read


def resolved(read, form=FORM, size=4, kind=None):
    return custom_reader("train_reader", AssignedReader(read, kind), form, size)


def numbers(batches):
    return [batch.images[:, 0, 0, 0].tolist() for batch in batches]


FOURS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    "read",
    [
        samples(),
        by_hand(),
        batch(samples(), 4),
        lambda: iter(list(samples()())),
        lambda: [list(sample) for sample in samples()()],
        lambda: (tuple(rows) for rows in by_hand()()),
        lambda: ([list(sample) for sample in rows] for rows in by_hand()()),
        lambda: ((value, np.array([label])) for value, label in samples()()),
        lambda: ((value.tolist(), np.int32(label)) for value, label in samples()()),
    ],
    ids=[
        "samples",
        "batches",
        "paddle.batch",
        "an iterator of a list",
        "samples as lists",
        "batches as tuples",
        "batches of lists",
        "labels in arrays",
        "images as lists",
    ],
)
def test_samples_and_batches_give_the_same_batches_in_every_pass(read):
    reader = resolved(read)
    for epoch in range(3):
        batches = list(reader.batches(epoch))
        assert numbers(batches) == FOURS
        assert [batch.labels.tolist() for batch in batches] == FOURS
        assert {batch.images.dtype for batch in batches} == {np.dtype(np.float32)}
        assert {batch.labels.dtype for batch in batches} == {np.dtype(np.int64)}


@given(count=st.integers(1, 30), size=st.integers(1, 8), is_batched=st.booleans())
def test_the_first_item_is_never_lost_and_no_sample_comes_twice(count, size, is_batched):
    read = by_hand(count, size) if is_batched else samples(count)
    reader = resolved(read, size=size)
    for epoch in range(2):
        found = numbers(reader.batches(epoch))
        assert list(itertools.chain(*found)) == list(range(count))
        assert max(map(len, found)) <= size


def test_a_reader_that_can_be_read_once_loses_nothing():
    once = samples()()
    assert numbers(resolved(lambda: once).batches(0)) == FOURS


def test_finding_out_takes_one_item():
    taken = []

    def read():
        for sample in samples()():
            taken.append(sample)
            yield sample

    resolved(read)
    assert len(taken) == 1


def test_a_pass_that_nothing_reads_is_closed():
    ended = []

    def read():
        try:
            yield from samples()()
        finally:
            ended.append(True)

    reader = resolved(read)
    assert not ended
    reader.close()
    assert ended
    assert numbers(reader.batches(0)) == FOURS


def test_a_declared_kind_needs_no_look():
    def read():
        raise AssertionError

    assert resolved(batch(read, 4)).kind is ReaderKind.BATCHES
    assert resolved(shuffle(read, 4)).kind is ReaderKind.SAMPLES
    assert resolved(np_array(np.zeros((2, 3)))).kind is ReaderKind.SAMPLES


def test_a_pass_continues_at_a_batch_for_readers_of_both_kinds():
    for read in (samples(), by_hand()):
        assert numbers(resolved(read).batches(0, 1)) == FOURS[1:]
        assert numbers(resolved(read).batches(1, 3)) == []
        with pytest.raises(ReaderEndedError):
            list(resolved(read).batches(0, 4))


def test_readers_that_shuffle_get_the_number_of_the_pass():
    read = shuffle(samples(), 10, seed=1)
    assert numbers(resolved(read).batches(1)) == numbers(resolved(read).batches(1))
    assert numbers(resolved(read).batches(0)) != numbers(resolved(read).batches(1))

    class Counted:
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __call__(self):
            return iter([(image(self.epoch), 0)])

    assert numbers(resolved(Counted()).batches(7)) == [[7]]


AMBIGUOUS = {
    "a stacked batch": (np.zeros((4, *SHAPE)), np.zeros(4, np.int64)),
    "an image without a channel": (np.zeros((2, 2)), 1),
    "an image alone": image(0),
    "an empty list": [],
    "a mapping": {"image": image(0), "label": 1},
    "text": "image",
    "three columns": (image(0), 1, 2),
    "nothing": None,
}


@pytest.mark.parametrize("item", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_an_item_that_is_neither_is_refused_with_the_way_out(item):
    with pytest.raises(ConfigError, match=r"is neither.*set_train_reader\(sample_reader=…\)"):
        resolved(lambda: iter([item]))


def test_an_image_in_a_list_is_ambiguous_in_a_prediction():
    def read():
        return iter([[image(3)]])

    with pytest.raises(ConfigError, match="could be a sample and a batch"):
        resolved(read, BARE)
    for kind in ReaderKind:
        assert numbers(resolved(read, BARE, kind=kind).batches(0)) == [[3]]


@pytest.mark.parametrize("item", [image(3), (image(3),), (image(3), 99), [image(3), 1]], ids=type)
def test_a_prediction_takes_images_with_and_without_labels(item):
    (found,) = resolved(lambda: iter([item]), BARE).batches(0)
    assert found.images.tolist() == [image(3).tolist()]
    assert found.labels is None
    (found,) = resolved(lambda: iter([[item, item]]), BARE).batches(0)
    assert len(found.images) == 2


def test_a_reader_of_nothing_is_refused_before_the_training():
    with pytest.raises(ConfigError, match="yields nothing"):
        resolved(lambda: iter(()))


def test_a_batch_larger_than_set_is_refused_and_a_smaller_one_is_reported(caplog):
    with pytest.raises(ConfigError, match=r"at most 3 samples.*set_train_batch_size\(4\)"):
        resolved(by_hand(), size=3)
    with caplog.at_level(logging.WARNING):
        resolved(by_hand(), size=8)
    assert "set_train_batch_size(4)" in caplog.text


WRONG = {
    "a label as text": ((image(0), "3"), r"write int\(label\)"),
    "a label beyond the classes": ((image(0), 10), "from 0 to 9"),
    "a negative label": ((image(0), -1), "from 0 to 9"),
    "a label with a fraction": ((image(0), 1.5), "from 0 to 9"),
    "another shape": ((np.zeros((3, 4, 4)), 1), r"shape \(3, 2, 2\), got \(3, 4, 4\)"),
    "text as image": ((np.full(SHAPE, "x"), 1), "an image of numbers"),
    "no label": ((image(0),), r"expected \(image, label\)"),
}


@pytest.mark.parametrize(("sample", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_sample_is_named_by_batch_and_number(sample, message):
    def read():
        return iter([*samples(5)(), sample])

    with pytest.raises(SampleShapeError, match=f"train_reader, batch 1, sample 1: .*{message}"):
        list(resolved(read).batches(0))


def test_a_reader_that_was_called_already_is_refused_when_it_is_assigned():
    entry = Entry()
    for name in ("train_reader", "test_reader", "predict_reader"):
        with pytest.raises(ValueError, match=f"{name} as a function without arguments"):
            setattr(entry, name, samples()())
        assert getattr(entry, name) is None


def test_the_kind_can_be_named_once():
    entry = Entry()
    read = by_hand()
    entry.set_train_reader(batch_reader=read)
    assert entry.train_reader is read
    for arguments in ({}, {"sample_reader": read, "batch_reader": read}):
        with pytest.raises(ValueError, match="one of sample_reader and batch_reader"):
            entry.set_train_reader(**arguments)
    assert entry.train_reader is read


def test_a_begun_pass_is_closed_if_another_reader_is_refused():
    ended = []

    def read():
        try:
            yield image(0), 0
        finally:
            ended.append(True)

    entry = Entry()
    entry.set_image_shape(SHAPE)
    assigned = AssignedReaders(AssignedReader(lambda: iter(())), AssignedReader(read))
    with pytest.raises(ConfigError, match="train_reader"):
        Readers.for_training(entry.settings, assigned)
    assert ended
