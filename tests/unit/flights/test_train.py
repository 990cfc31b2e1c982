"""The model: training on made-up samples, and scores."""

import numpy as np
import pytest

from tests.unit.training.points import Rows, job_over
from trainfeed.errors import ConfigError
from trainfeed.samples import Schema


@pytest.fixture
def train(load):
    return load("train")


SCHEMA = Schema.from_json(
    [
        {"name": "indices", "dtype": "int32", "shape": [2]},
        {"name": "values", "dtype": "float32", "shape": [3]},
        {"name": "label", "dtype": "int64", "shape": []},
    ]
)


def made_up(n, *, seed):
    """Samples whose label hangs on one category and one value."""
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, 50, (n, 2), dtype=np.int32)
    values = rng.normal(size=(n, 3)).astype(np.float32)
    logits = 2 * (indices[:, 0] % 2) - 2 + 2 * values[:, 1]
    label = (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(np.int64)
    return {"indices": indices, "values": values, "label": label}


@pytest.fixture
def columns():
    return {"train": made_up(1500, seed=1), "eval": made_up(400, seed=2)}


@pytest.fixture
def job(tmp_path, columns):
    """Make the context of a process of a job."""

    def make(home="one", **fields):
        splits = {name: Rows(each, name, schema=SCHEMA) for name, each in columns.items()}
        return job_over(tmp_path / home, splits, **fields)

    return make


def test_it_beats_the_base_rate(train, job):
    metrics = train.main(job())
    assert metrics["auc"] > 0.8 > metrics["auc_base"] == 0.5
    assert metrics["log_loss"] < metrics["log_loss_base"] - 0.1
    assert (metrics["train_samples"], metrics["eval_samples"]) == (1500, 400)


def test_one_seed_gives_one_model_and_another_seed_another(train, job):
    models = []
    for number, seed in enumerate((7, 7, 8)):
        run = job(f"{number}", seed=seed)
        train.main(run)
        models.append((run.output / "model.npz").read_bytes())
    assert models[0] == models[1] != models[2]


def test_the_stored_model_is_the_one_that_was_scored(train, job, columns):
    run = job()
    metrics = train.main(run)
    model, samples = train.Model.read(run.output), columns["eval"]
    assert train.auc(samples["label"], model.probabilities(samples)) == metrics["auc"]


def test_it_refuses_more_than_one_rank(train, job):
    with pytest.raises(ConfigError, match="expected one rank, got 2"):
        train.main(job(ranks=2))


@pytest.mark.parametrize("split", ["train", "eval"])
def test_a_split_without_samples_is_named(train, job, columns, split):
    columns[split] = {name: column[:0] for name, column in columns[split].items()}
    with pytest.raises(ConfigError, match=f"split '{split}' of 2013-01-01/g0001"):
        train.main(job())


@pytest.mark.parametrize("label", [0, 1])
def test_a_window_of_one_class_gives_finite_metrics(train, job, columns, label):
    for each in columns.values():
        each["label"][:] = label
    metrics = train.main(job())
    assert metrics["auc"] == 0.5
    assert np.isfinite(list(metrics.values())).all()


@pytest.mark.parametrize(
    ("labels", "scores", "expected"),
    [
        ([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.75),
        ([0, 1], [0.3, 0.3], 0.5),
        ([1, 0], [0.1, 0.9], 0.0),
        ([0, 1, 1], [0.2, 0.2, 0.9], 0.75),
    ],
)
def test_auc_counts_pairs_in_order_and_ties_by_half(train, labels, scores, expected):
    assert train.auc(np.array(labels), np.array(scores)) == expected


def test_log_loss_is_the_mean_of_minus_log_likelihood(train):
    loss = train.log_loss(np.array([1, 0]), np.array([0.5, 0.25]))
    assert loss == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2)
