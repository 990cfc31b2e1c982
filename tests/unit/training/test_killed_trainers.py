"""SIGKILL in the middle of an epoch: the trainers go on at their checkpoint, on the same curve."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.training.killed_trainer import DATASETS
from trainfeed.cli.scaffold import new_dataset
from trainfeed.core import faults
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import JobKilledError
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.training.jobs import JobResult
from trainfeed.training.launch import train
from trainfeed.versions import init_root

ROOT = Path(__file__).parents[3]


def curve(home):
    lines = [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "step" in line]


def counted(home):
    """Return what the log says was computed again."""
    lines = [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]
    return [line["recomputed"] for line in lines if "recomputed" in line]


def run(dataset, home, fault=""):
    command = [sys.executable, "-m", "tests.unit.training.killed_trainer", dataset, str(home)]
    environment = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        faults.VARIABLE: fault,
    }
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


# 1,500 samples in steps of 32: 47 an epoch, the last of 28. Both kills come in the middle of one.
@pytest.mark.parametrize(("dataset", "last"), [("flights", 8 * 47), ("digits", 30 * 47)])
def test_a_trainer_that_is_killed_in_mid_epoch_ends_with_the_same_curve_and_model(
    tmp_path, dataset, last
):
    assert (DATASETS / dataset / "train.py").is_file()
    killed_at = last - 12
    assert run(dataset, tmp_path / "one") == 0
    assert run(dataset, tmp_path / "two", f"train.step{killed_at}:kill") == -signal.SIGKILL
    assert len(curve(tmp_path / "two")) == killed_at
    assert run(dataset, tmp_path / "two") == 0
    assert curve(tmp_path / "two") == curve(tmp_path / "one")
    assert len(curve(tmp_path / "two")) == last
    first, second = (tmp_path / home / "output" / "model.npz" for home in ("one", "two"))
    assert second.read_bytes() == first.read_bytes()
    saved_at = killed_at - killed_at % 200
    num_short = killed_at // 47 - saved_at // 47
    steps = killed_at - saved_at
    assert counted(tmp_path / "two") == [{"steps": steps, "samples": 32 * steps - 4 * num_short}]


@pytest.fixture
def clicks(tmp_path, monkeypatch):
    """A new data set, built; and where things are."""
    monkeypatch.setenv("TRAINFEED_DATA", str(tmp_path / "data"))
    datasets = tmp_path / "datasets"
    env = replace(environment_from_environ(datasets=str(datasets)), kafka={})
    init_root(Path(env.root))
    new_dataset(datasets, "clicks")
    spec = load_spec(datasets / "clicks")
    interval = next(iter(spec.schedule_model().intervals()))
    build(spec, interval, env)
    return spec, env, interval


def test_a_new_data_set_trains_and_a_job_that_is_killed_goes_on_and_counts(
    clicks, monkeypatch, tmp_path
):
    spec, env, interval = clicks
    monkeypatch.setenv(faults.VARIABLE, f"train.step222:kill:{tmp_path}")
    with pytest.raises(JobKilledError, match="rank 0 was ended by signal 9"):
        train(spec, env, interval)
    report = train(spec, env, interval)
    assert report["verdict"] == "ran"
    home = Path(report["folder"])
    result = JobResult.read(home / "result.json")
    assert result.recomputed == counted(home)[0]
    per_epoch = len(curve(home)) // 60
    assert result.recomputed["steps"] == 222 - 222 // (10 * per_epoch) * 10 * per_epoch > 0
    # The same job in another root, undisturbed.
    other = replace(env, root=str(tmp_path / "other"))
    init_root(Path(other.root))
    build(spec, interval, other)
    undisturbed = train(spec, other, interval)
    assert undisturbed["metrics"] == report["metrics"]
    assert undisturbed["metrics"]["accuracy"] > undisturbed["metrics"]["base"]
    assert curve(Path(undisturbed["folder"])) == curve(home)
    assert JobResult.read(Path(undisturbed["folder"]) / "result.json").files == result.files
    assert JobResult.read(Path(undisturbed["folder"]) / "result.json").recomputed == {}
