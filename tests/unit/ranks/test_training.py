"""The curve of a training: the same for any number of ranks, and after any kill."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from examples.ranks.__main__ import main
from examples.ranks.checkpoint import Checkpoint
from examples.ranks.digest import batch_digest, row_digests
from examples.ranks.exchange import RankLostError
from examples.ranks.model import Model
from examples.ranks.training import CHECKPOINT_FILE, CURVE_FILE, Settings, train
from tests.unit.ranks.points import INTERVALS, NAME, NUM_SAMPLES, publish
from trainfeed.core import faults

# 640 samples in steps of 24: 26 whole ones per epoch and a short one, which ranks share unevenly.
NUM_STEPS = 3 * 27
NUM_BUCKETS = 1000


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("points")
    publish(folder, folder / "root")
    return Settings(
        dataset=NAME,
        interval=INTERVALS,
        output=folder,
        root=folder / "root",
        num_buckets=NUM_BUCKETS,
        num_epochs=3,
        global_batch=24,
        checkpoint_every=10,
    )


@pytest.fixture(scope="module")
def one_rank(settings, tmp_path_factory):
    """Curve and model of an undisturbed training on one rank."""
    own = replace(settings, output=tmp_path_factory.mktemp("one"))
    train(own, 1)
    return outcome(own)


@pytest.fixture
def fresh(settings, tmp_path):
    """The same training, with an output of its own."""
    return replace(settings, output=tmp_path)


def outcome(settings):
    lines = (settings.output / CURVE_FILE).read_text().splitlines()
    checkpoint = Checkpoint.read(settings.output / CHECKPOINT_FILE)
    return [json.loads(line) for line in lines], checkpoint.parameters.tobytes()


def kill(monkeypatch, *points):
    monkeypatch.setenv(faults.VARIABLE, ",".join(f"{point}:kill" for point in points))


def test_an_undisturbed_training_learns_from_every_sample_once_per_epoch(one_rank):
    curve, _ = one_rank
    assert [line["step"] for line in curve] == list(range(NUM_STEPS))
    assert [line["epoch"] for line in curve] == [epoch for epoch in range(3) for _ in range(27)]
    # A new order in every epoch: no batch comes twice.
    assert len({line["digest"] for line in curve}) == NUM_STEPS
    assert sum(line["loss"] for line in curve[-27:]) < sum(line["loss"] for line in curve[:27])


@pytest.mark.parametrize(("num_ranks", "num_threads"), [(2, 2), (4, 0)])
def test_global_batches_loss_curve_and_model_are_the_same_on_more_ranks(
    fresh, one_rank, num_ranks, num_threads
):
    train(replace(fresh, num_threads=num_threads), num_ranks)
    assert outcome(fresh) == one_rank


@pytest.mark.parametrize(("num_ranks", "lost", "then"), [(2, [1], 1), (4, [0, 1, 2, 3], 2)])
def test_after_sigkill_in_mid_epoch_the_curve_goes_on_as_if_nothing_had_been(
    fresh, one_rank, monkeypatch, num_ranks, lost, then
):
    kill(monkeypatch, *(f"rank{rank}.step47" for rank in lost))
    with pytest.raises(RankLostError, match=f"rank {lost[0]}: -9"):
        train(fresh, num_ranks)
    monkeypatch.delenv(faults.VARIABLE)
    lines = (fresh.output / CURVE_FILE).read_text().splitlines()
    assert [json.loads(line) for line in lines] == one_rank[0][:47]
    saved = Checkpoint.read(fresh.output / CHECKPOINT_FILE)
    assert saved.step == 40
    # One state of the loader serves all ranks, whatever their number.
    assert (saved.loader["epoch"], saved.loader["position"]) == (1, (40 - 27) * 24)
    assert len(json.dumps(saved.loader)) < 200
    train(fresh, then)
    assert outcome(fresh) == one_rank


def test_ranks_that_cannot_share_a_batch_evenly_are_refused(fresh):
    with pytest.raises(ValueError, match="global batch that 5 ranks share evenly, got 24"):
        train(fresh, 5)


def samples(count):
    rng = np.random.default_rng(1)
    return {
        "indices": rng.integers(0, NUM_BUCKETS, (count, 3)).astype(np.int32),
        "values": rng.normal(size=(count, 5)).astype(np.float32),
        "label": rng.integers(0, 2, count),
    }


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 7])
def test_gradients_of_parts_add_up_to_that_of_the_whole_bit_by_bit(num_ranks):
    whole = samples(128)
    model = Model(NUM_BUCKETS, 5)
    model.parameters[:] = np.random.default_rng(2).normal(size=len(model.parameters))
    parts = [
        model.gradient({name: column[rank::num_ranks] for name, column in whole.items()})
        for rank in range(num_ranks)
    ]
    assert (sum(parts) == model.gradient(whole)).all()


def test_the_gradient_is_that_of_the_loss():
    batch, model = samples(8), Model(NUM_BUCKETS, 5)
    model.parameters[:] = np.random.default_rng(3).normal(size=len(model.parameters))
    gradient = model.gradient(batch)
    for place in [*batch["indices"][:2].ravel(), NUM_BUCKETS + 2, len(model.parameters) - 1]:
        losses = []
        for step in (1e-4, -1e-4):
            model.parameters[place] += step
            losses.append(int(model.gradient(batch)[-1]))
            model.parameters[place] -= step
        assert (losses[0] - losses[1]) / 2e-4 == pytest.approx(gradient[place], rel=1e-4)


@pytest.mark.parametrize("position", [0, 5])
def test_a_digest_depends_on_the_sequence_of_samples_and_not_on_who_read_which(position):
    rows = np.frombuffer(row_digests(samples(10)), "u8")
    whole = batch_digest([rows.tobytes()], position)
    for num_ranks in (2, 3, 4):
        owners = (position + np.arange(10)) % num_ranks
        parts = [rows[owners == rank].tobytes() for rank in range(num_ranks)]
        assert batch_digest(parts, position) == whole
    assert batch_digest([rows[::-1].tobytes()], position) != whole


def test_the_set_has_as_many_samples_as_the_test_relies_on():
    assert sum(NUM_SAMPLES) == 26 * 24 + 16


def test_the_command_says_what_it_refuses(fresh):
    app = typer.Typer()
    app.command()(main)
    places = ["--dataset", NAME, "--root", str(fresh.root), "--output", str(fresh.output)]
    answer = CliRunner().invoke(app, [INTERVALS, *places, "--ranks", "5", "--batch", "24"])
    assert answer.exit_code == 1
    assert "expected a global batch that 5 ranks share evenly, got 24" in answer.output
