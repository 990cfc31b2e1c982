"""The classifier: training and comparison."""

from types import SimpleNamespace

import numpy as np
import pytest

from trainfeed.errors import ConfigError


class Samples:
    """A data set in memory, in two chunks."""

    def __init__(self, pixels, labels, split="train"):
        self.pixels, self.labels, self.split = pixels, labels, split
        self.version = "2024-01-01/g0001"

    @property
    def num_samples(self):
        return len(self.labels)

    def iter_arrays(self):
        for part in (slice(None, 40), slice(40, None)):
            yield {"pixels": self.pixels[part], "label": self.labels[part]}


def made_up(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    pixels = rng.integers(0, 5, (count, 64)).astype(np.uint8)
    pixels[np.arange(count), labels * 6] = 16
    return pixels, labels


def job(tmp_path, *, train, evaluation, world_size=1):
    splits = {"train": train, "eval": evaluation}
    return SimpleNamespace(
        world_size=world_size, seed=7, output=tmp_path, open=lambda name: splits[name]
    )


def test_it_tells_digits_apart_better_than_the_most_frequent_one_does(load, tmp_path):
    evaluation = made_up(200, 2)
    report = load("train").main(
        job(tmp_path, train=Samples(*made_up(600, 1)), evaluation=Samples(*evaluation))
    )
    assert report["accuracy"] > 0.95
    assert report["accuracy_base"] == np.bincount(evaluation[1]).max() / 200
    assert (report["train_samples"], report["eval_samples"]) == (600, 200)
    with np.load(tmp_path / "model.npz") as model:
        assert model["weights"].shape == (65, 10)


def test_the_same_job_learns_the_same(load, tmp_path):
    run = load("train").main
    where = job(tmp_path, train=Samples(*made_up(100, 1)), evaluation=Samples(*made_up(50, 2)))
    run(where)
    with np.load(tmp_path / "model.npz") as model:
        first = model["weights"]
    run(where)
    with np.load(tmp_path / "model.npz") as model:
        assert (model["weights"] == first).all()


@pytest.mark.parametrize("empty", ["train", "evaluation"])
def test_an_empty_split_is_named(load, tmp_path, empty):
    sets = {"train": Samples(*made_up(50, 1)), "evaluation": Samples(*made_up(50, 2))}
    sets[empty] = Samples(*made_up(0, 3), split=empty)
    with pytest.raises(ConfigError, match=f"expected samples in split '{empty}'"):
        load("train").main(job(tmp_path, **sets))


def test_there_is_one_rank(load, tmp_path):
    with pytest.raises(ConfigError, match="expected one rank, got 2"):
        load("train").main(job(tmp_path, train=None, evaluation=None, world_size=2))
