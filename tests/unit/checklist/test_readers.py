"""Rows on readers: batch readers by hand everywhere, and images with a list of labels."""

import itertools

import numpy as np
import pytest
from PIL import Image

from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.decorators import (
    as_batches,
    buffered,
    cache,
    chain,
    feed,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    strict_batches,
    xmap_readers,
)


def by_hand():
    """A batch reader whose sizes change from batch to batch."""
    numbers = itertools.count()
    for size in (3, 1, 4):
        yield [(np.full(2, n, np.float32), n) for n in itertools.islice(numbers, size)]


def same(batches):
    return batches


PLACES = {
    "as_batches": lambda: as_batches(by_hand, 5),
    "buffered": lambda: buffered(by_hand, 2),
    "cache": lambda: cache(by_hand),
    "chain": lambda: chain(by_hand),
    "firstn": lambda: firstn(by_hand, 3),
    "map_readers": lambda: map_readers(same, by_hand),
    "multiprocess_reader": lambda: multiprocess_reader([by_hand]),
    "shuffle": lambda: shuffle(by_hand, 1),
    "strict_batches": lambda: strict_batches(by_hand),
    "xmap_readers": lambda: xmap_readers(same, by_hand, 2, 2, order=True),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_batch_reader_by_hand_is_taken_everywhere(place):
    """S29."""
    reader = place()
    for _ in range(2):
        batches = list(reader())
        assert [len(items) for items in batches] == [3, 1, 4]
        assert [n for items in batches for _, n in items] == list(range(8))
    fed = [columns["label"].tolist() for columns in feed(reader, {"label": 1})()]
    assert fed == [[0, 1, 2], [3], [4, 5, 6, 7]]


@pytest.mark.parametrize("use_multiprocess", [False, True])
def test_a_batch_reader_by_hand_feeds_a_loader(use_multiprocess):
    """S29."""
    loader = GeneratorLoader.from_generator(capacity=2, use_multiprocess=use_multiprocess)
    loader.set_sample_list_generator(by_hand)
    assert [label.tolist() for _, label in loader] == [[0, 1, 2], [3], [4, 5, 6, 7]]


@pytest.fixture
def folder(tmp_path):
    """``images/`` and ``label.txt``, as users lay out training data of their own."""
    (tmp_path / "images").mkdir()
    lines = []
    for n in range(10):
        Image.fromarray(np.full((4, 4, 3), n * 20, np.uint8)).save(tmp_path / f"images/{n}.png")
        lines.append(f"images/{n}.png {n % 3}\n")
    (tmp_path / "label.txt").write_text("".join(lines))
    return tmp_path


def train_reader(folder):
    """What a user writes: a reader of images and labels."""
    from PIL import Image

    def reader():
        for line in (folder / "label.txt").read_text().splitlines():
            name, label = line.split()
            with Image.open(folder / name) as image:
                yield np.asarray(image, np.float32).transpose(2, 0, 1), int(label)

    return reader


def test_images_with_a_list_of_labels_are_batched_once(folder):
    """S60: whether the user's reader gives samples or batches already."""

    def batched():
        samples = train_reader(folder)()
        while items := list(itertools.islice(samples, 4)):
            yield items

    taken = [list(as_batches(reader, 4)()) for reader in (train_reader(folder), batched)]
    for batches in taken:
        assert [len(items) for items in batches] == [4, 4, 2]
        assert {image.shape for items in batches for image, _ in items} == {(3, 4, 4)}
        assert [label for items in batches for _, label in items] == [n % 3 for n in range(10)]
    loader = GeneratorLoader.from_generator(capacity=2)
    loader.set_sample_generator(train_reader(folder), 4, drop_last=False)
    assert [image.shape for image, _ in loader] == [(4, 3, 4, 4)] * 2 + [(2, 3, 4, 4)]
