"""Loaders and readers that are made anew for every epoch draw new numbers, as the originals do."""

import random

import numpy as np
import pytest

from trainfeed.compat import paddle
from trainfeed.compat.paddle import fluid, io
from trainfeed.decorators import multiprocess_reader, resumable, xmap_readers


def drawn(_=None):
    return random.getrandbits(40), int(np.random.randint(1 << 40))  # noqa: NPY002 (as users do)


class Numbered(io.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, _):
        return drawn()


class Stream(io.IterableDataset):
    def __iter__(self):
        return (drawn() for _ in range(4))


def from_io(dataset, workers, **options):
    loader = io.DataLoader(dataset, batch_size=2, num_workers=workers, collate_fn=list, **options)
    return [pair for batch in loader for pair in batch]


def from_generator():
    loader = fluid.io.DataLoader.from_generator(capacity=2, use_multiprocess=True)
    loader.set_sample_generator(lambda: (drawn() for _ in range(4)), batch_size=2)
    columns = ([np.ravel(column).tolist() for column in batch] for batch in loader())
    return [pair for batch in columns for pair in zip(*batch, strict=True)]


def draws():
    return (drawn() for _ in range(4))


WAYS = {
    "numbered, 1 worker": lambda: from_io(Numbered(), 1),
    "numbered, 2 workers, shuffled": lambda: from_io(Numbered(), 2, shuffle=True),
    "iterable, 1 worker": lambda: from_io(Stream(), 1),
    "iterable, 2 workers": lambda: from_io(Stream(), 2),
    "from_generator": from_generator,
    "multiprocess_reader": lambda: list(multiprocess_reader([draws])()),
    "multiprocess_reader of two": lambda: list(multiprocess_reader([draws, draws])()),
    "xmap_readers": lambda: list(
        xmap_readers(drawn, lambda: iter(range(4)), 2, 2, True, use_processes=True)()
    ),
}


# Several workers take their samples as they come, so one sample may get the numbers of another.
SHARED = [WAYS["numbered, 2 workers, shuffled"], WAYS["xmap_readers"]]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_made_anew_draws_new_numbers_which_seeds_bring_back(way):
    def epochs():
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        return [sorted(way()) for _ in range(3)]

    first = epochs()
    for part in range(2):
        numbers = [pair[part] for epoch in first for pair in epoch]
        assert len(set(numbers)) == len(numbers)
    if way not in SHARED:
        assert epochs() == first


def test_workers_take_one_number_of_the_generator_before_the_order_as_the_original():
    class Plain(Numbered):
        def __getitem__(self, number):
            return number

    np.random.seed(3)  # noqa: NPY002
    np.random.randint(0, 1 << 62)  # noqa: NPY002 (what the original takes for its workers)
    order = np.random.permutation(4).tolist()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    assert from_io(Plain(), 2, shuffle=True) == order


def test_shuffle_has_the_order_of_the_original_with_and_without_its_seed():
    def numbers():
        return iter(range(10))

    def orders(*, size):
        return [list(paddle.reader.shuffle(numbers, size)()) for _ in range(3)]

    random.seed(7)
    first = orders(size=4)
    assert len({tuple(order) for order in first}) == 3
    random.seed(7)
    assert orders(size=4) == first
    random.seed(7)
    expected = []
    for window in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9]):
        random.Random.shuffle(random._inst, window)
        expected += window
    assert first[0] == expected
    assert orders(size=0) == orders(size=1) == [list(range(10))] * 3
    with pytest.raises(ValueError, match="0"):
        paddle.reader.shuffle(numbers, -1)


def test_an_order_that_cannot_be_repeated_is_not_resumed_unless_it_has_a_seed():
    def numbers():
        return iter(range(10))

    with pytest.raises(ValueError, match="seed"):
        resumable(paddle.reader.shuffle(numbers, 4))
    with pytest.raises(ValueError, match="seed"):
        resumable(paddle.reader.buffered(fluid.io.shuffle(numbers, 4), 2))
    keyed = paddle.reader.shuffle(numbers, 4, seed=3)
    assert list(resumable(keyed)()) == list(paddle.reader.shuffle(numbers, 4, seed=3)())
