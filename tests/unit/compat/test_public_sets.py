"""Paddle's data sets from the public folder of a data centre: no file is downloaded or copied."""

import numpy as np
import pytest

from tests.unit.publicsets.conftest import mnist, no_public_folder, root
from tests.unit.publicsets.idx_files import write_mnist
from trainfeed.compat import paddle
from trainfeed.errors import NotFoundError
from trainfeed.publicsets import build_public_set, public_version

__all__ = ["mnist", "no_public_folder", "root"]


@pytest.fixture
def public(root, tmp_path, monkeypatch):
    """A known public root, and no files of MNIST."""
    monkeypatch.setenv("TRAINFEED_PUBLIC", str(root.parent))
    monkeypatch.setattr(paddle.dataset.common, "DATA_HOME", str(tmp_path / "home"))
    return root


def by_pixels(samples):
    return {image.tobytes(): int(label) for image, label in samples}


@pytest.mark.parametrize("part", ["train", "test"])
def test_mnist_is_read_from_the_public_set_with_the_values_of_the_original(
    public, mnist, part, monkeypatch
):
    folder, *_ = mnist
    build_public_set("mnist", originals=folder, root=public)
    samples = list(getattr(paddle.dataset.mnist, part)()())
    image, label = samples[0]
    assert (image.dtype, image.shape, label.dtype) == (np.float32, (784,), np.int64)
    assert (image.min(), image.max()) == (-1.0, 1.0)
    # The same digits as from the files themselves.
    home = folder.parent / "home"
    write_mnist(home / "mnist")
    from_files = list(getattr(paddle.dataset.mnist, part)()())
    assert len(from_files) == len(samples) == {"train": 60, "test": 10}[part]
    assert by_pixels(from_files) == by_pixels(samples)


def test_the_files_of_mnist_come_before_the_public_set(public, mnist, tmp_path):
    build_public_set("mnist", originals=mnist[0], root=public)
    (train, _), _ = write_mnist(tmp_path / "home" / "mnist", seed=5)
    first, _ = next(iter(paddle.dataset.mnist.train()()))
    assert np.allclose(first, train[0].reshape(-1) / 127.5 - 1, atol=1e-6)


def test_one_missing_file_is_named_and_not_replaced_by_the_public_set(public, mnist, tmp_path):
    build_public_set("mnist", originals=mnist[0], root=public)
    write_mnist(tmp_path / "home" / "mnist")
    (tmp_path / "home" / "mnist" / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(NotFoundError, match="expected train-labels-idx1-ubyte"):
        paddle.dataset.mnist.train()


def test_without_files_and_set_both_places_are_named(public, monkeypatch):
    with pytest.raises(NotFoundError, match="trainfeed public build mnist"):
        paddle.dataset.mnist.train()
    monkeypatch.delenv("TRAINFEED_PUBLIC")
    with pytest.raises(NotFoundError, match="set TRAINFEED_PUBLIC"):
        paddle.dataset.mnist.test()


def test_bow_has_the_functions_of_imdb(public):
    build_public_set("bow", root=public)
    words = paddle.dataset.bow.word_dict()
    assert list(words.values()) == list(range(len(words)))
    assert words["<unk>"] == len(words) - 1
    assert words["the"] == 0
    samples = list(paddle.dataset.bow.train(words)())
    assert type(samples[0][0]) is list
    assert {label for _, label in samples} == {0, 1}
    assert all(0 <= number < len(words) for each, _ in samples for number in each)
    tested = list(paddle.dataset.bow.test(words)())
    assert len(samples) + len(tested) == public_version("bow").version.manifest.num_samples()
    few = {"the": 0, "<unk>": 1}
    assert {n for each, _ in paddle.dataset.bow.test(few)() for n in each} == {0, 1}
    with pytest.raises(KeyError):
        paddle.dataset.bow.train({"the": 0})


def test_both_labels_of_bow_can_be_learned_from_their_words(public):
    build_public_set("bow", root=public)
    words = paddle.dataset.bow.word_dict()
    counts = np.ones((2, len(words)))
    for numbers, label in paddle.dataset.bow.train(words)():
        np.add.at(counts[label], numbers, 1)
    chances = np.log(counts / counts.sum(axis=1, keepdims=True))
    tested = list(paddle.dataset.bow.test(words)())
    right = [chances[:, numbers].sum(axis=1).argmax() == label for numbers, label in tested]
    most = max(np.bincount([label for _, label in tested])) / len(tested)
    assert np.mean(right) > most + 0.05
