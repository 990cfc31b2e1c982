"""The classifier: training and comparison."""

import numpy as np
import pytest

from tests.unit.training.points import Rows, job_over
from trainfeed.errors import ConfigError


def made_up(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    pixels = rng.integers(0, 5, (count, 64)).astype(np.uint8)
    pixels[np.arange(count), labels * 6] = 16
    return pixels, labels


def job(home, *, train, evaluation, **fields):
    splits = {}
    for name, (pixels, labels) in {"train": train, "eval": evaluation}.items():
        splits[name] = Rows({"pixels": pixels, "label": labels}, name)
    return job_over(home, splits, **fields)


def test_it_tells_digits_apart_better_than_the_most_frequent_one_does(load, tmp_path):
    evaluation = made_up(200, 2)
    report = load("train").main(job(tmp_path, train=made_up(600, 1), evaluation=evaluation))
    assert report["accuracy"] > 0.95
    assert report["accuracy_base"] == np.bincount(evaluation[1]).max() / 200
    assert (report["train_samples"], report["eval_samples"]) == (600, 200)
    with np.load(tmp_path / "output" / "model.npz") as model:
        assert model["weights"].shape == (65, 10)


def test_the_same_job_learns_the_same(load, tmp_path):
    models = []
    for home in (tmp_path / "one", tmp_path / "two"):
        load("train").main(job(home, train=made_up(100, 1), evaluation=made_up(50, 2)))
        with np.load(home / "output" / "model.npz") as model:
            models.append(model["weights"])
    assert (models[0] == models[1]).all()


@pytest.mark.parametrize("empty", ["train", "evaluation"])
def test_an_empty_split_is_named(load, tmp_path, empty):
    sets = {"train": made_up(50, 1), "evaluation": made_up(50, 2)}
    sets[empty] = made_up(0, 3)
    split = "train" if empty == "train" else "eval"
    with pytest.raises(ConfigError, match=f"expected samples in split '{split}' of 2013"):
        load("train").main(job(tmp_path, **sets))


def test_there_is_one_rank(load, tmp_path):
    two = job(tmp_path, train=made_up(5, 1), evaluation=made_up(5, 2), ranks=2)
    with pytest.raises(ConfigError, match="expected one rank, got 2"):
        load("train").main(two)
