"""Trainings with a tracking server: delivered by the launching side, and never held up by it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.training.models.test_registration import damage
from tests.unit.training.tracking.mlflow_stand_in import StandIn, start
from trainfeed.errors import ConfigError, GateError, JobFailedError
from trainfeed.training.jobs import JobRecord
from trainfeed.training.launch import train
from trainfeed.training.models import PROD, Model, ModelsFolder, parse_version
from trainfeed.training.models import promote as lead
from trainfeed.training.promotion import evaluate, promote
from trainfeed.training.tracking import deliver_change

CODE = """
import os


def main(job):
    if (job.roots.code / "fail").exists():
        raise ValueError("no")
    (job.output / "model").write_text("weights")
    job.log_metrics(1, loss=0.5)
    job.log_metrics(2, loss=0.25)
    return {"samples": 1.0, "token": float("TOKEN" in str(os.environ))}
"""
TRAIN = (
    'train: {entry: "train:main", tracking: {tensorboard: true, mlflow: tracker, experiment: exp},'
    " model: {name: click_model, metrics: {samples: {min: 0}}}}"
)


@pytest.fixture
def server(socket_enabled):
    stand_in = StandIn()
    running = start(stand_in)
    stand_in.url = f"http://127.0.0.1:{running.server_port}"
    yield stand_in
    running.shutdown()
    running.server_close()


@pytest.fixture
def tracked(project, server):
    """The small data set with a training that is delivered to a stand-in of a server."""
    (project.env.datasets / "clicks" / "train.py").write_text(CODE)
    project.edit("seed: 7", f"seed: 7\n{TRAIN}")
    project.prebuilt()
    settings = {"tracker": {"url": server.url, "token": "TOKEN", "timeout_s": 30}}
    return project, replace(project.env, trackers=settings)


def run(project, env):
    return train(project.spec, env, project.interval("2024-03-01"))


def test_a_training_is_delivered_with_its_metrics_and_the_rank_has_no_token(tracked, server):
    project, env = tracked
    report = run(project, env)
    assert report["tracking"] == {"mlflow": "delivered"}
    assert report["metrics"]["token"] == 0.0
    (found,) = server.runs.values()
    assert found["status"] == "FINISHED"
    assert {(key, step, value) for key, step, value, _ in found["points"]} == {
        ("loss", 1, 0.5),
        ("loss", 2, 0.25),
        ("result/samples", 0, 1.0),
        ("result/token", 0, 0.0),
    }
    home = JobRecord(project.folder.training("2024-03-01", report["job"])).home
    assert list((home / "tensorboard").iterdir())
    assert run(project, env)["verdict"] == "adopted"
    assert len(server.runs) == 1


def test_a_server_that_is_away_delays_nothing_and_the_next_step_delivers(tracked, server):
    project, env = tracked
    server.fault = lambda handler, _path: handler.reply(500, {}) or True
    report = run(project, env)
    assert report["verdict"] == "ran"
    assert "500" in report["tracking"]["mlflow"]
    assert not server.runs
    server.fault = None
    found = evaluate(project.spec, env, "2024-03-01", report["job"])
    assert found["tracking"] == {"mlflow": "delivered", "run": "delivered"}
    (made,) = server.runs.values()
    assert made["status"] == "FINISHED"
    assert server.models["click_model"]["aliases"] == {"candidate": "1"}


def test_a_promotion_is_mirrored_and_one_that_was_not_is_made_up_for(tracked, server):
    project, env = tracked
    version = evaluate(project.spec, env, "2024-03-01", run(project, env)["job"])["version"]
    server.fault = lambda handler, _path: handler.reply(503, {}) or True
    told = promote(project.spec, env, version, "why", request="job 1")
    assert (told["verdict"], told["prod"]) == ("promoted", version)
    assert "not delivered" in told["tracking"]["mlflow"]
    server.fault = None
    told = promote(project.spec, env, version, "why", request="job 1")
    assert (told["verdict"], told["tracking"]) == ("unchanged", {"mlflow": "delivered"})
    assert server.models["click_model"]["aliases"] == {"candidate": "1", "prod": "1"}
    (made,) = server.models["click_model"]["versions"]
    assert made["source"] == f"trainfeed:/models/click_model/{version}"


def test_a_server_without_settings_is_an_error_before_anything_starts(tracked, server):
    project, env = tracked
    with pytest.raises(ConfigError, match="tracking server 'tracker'"):
        run(project, replace(env, trackers={}))
    assert not list(project.folder.path.glob("training/2024-03-01/*/job.json"))


def test_a_training_that_fails_is_a_failed_run_and_its_repetition_the_same_run(tracked, server):
    project, env = tracked
    stop = project.env.datasets / "clicks" / "fail"
    stop.touch()
    with pytest.raises(JobFailedError):
        run(project, env)
    (found,) = server.runs.values()
    assert (found["status"], found["points"]) == ("FAILED", set())
    stop.unlink()
    run(project, env)
    assert found["status"] == "FINISHED"
    assert len(server.runs) == 1


def test_tracking_is_no_part_of_the_job(tracked):
    project, env = tracked
    first = run(project, env)
    project.edit("tensorboard: true, ", "")
    again = run(project, env)
    assert (again["verdict"], again["job"]) == ("adopted", first["job"])


def test_a_closed_gate_still_is_a_finished_run(tracked, server):
    project, env = tracked
    project.edit('{entry: "train:main",', '{entry: "train:main", metric: samples, min: 2,')
    with pytest.raises(GateError):
        run(project, env)
    assert [each["status"] for each in server.runs.values()] == ["FINISHED"]


def test_a_change_by_hand_is_delivered_and_never_refused_for_the_server(tracked, server):
    project, env = tracked
    version = evaluate(project.spec, env, "2024-03-01", run(project, env)["job"])["version"]
    folder = ModelsFolder(Path(env.root)).model("click_model")
    lead(folder, PROD, parse_version(version), "by hand")
    told = deliver_change(folder, env.datasets, lambda _: replace(env, trackers={}))
    assert "expected settings of the tracking server 'tracker'" in told["mlflow"]
    assert server.models["click_model"]["aliases"] == {"candidate": "1"}
    assert deliver_change(folder, env.datasets, lambda _: env) == {"mlflow": "delivered"}
    assert server.models["click_model"]["aliases"] == {"candidate": "1", "prod": "1"}
    assert deliver_change(folder, env.datasets / "elsewhere", lambda _: env) == {}


@pytest.mark.parametrize("fault", ["version", "specification"])
def test_a_change_by_hand_of_a_model_whose_server_is_not_known_promises_no_delivery(
    tracked, caplog, fault
):
    project, env = tracked
    version = evaluate(project.spec, env, "2024-03-01", run(project, env)["job"])["version"]
    folder = ModelsFolder(Path(env.root)).model("click_model")
    if fault == "version":
        damage(Model.open(folder, parse_version(version)))
    else:
        (env.datasets / "clicks" / "dataset.yaml").write_text("nme: clicks\n")
    assert deliver_change(folder, env.datasets, lambda _: env) == {}
    assert "the tracking server of model click_model is not known" in caplog.text
