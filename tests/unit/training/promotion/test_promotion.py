"""From a finished job to a promoted model: the gate, the version, the alias, after every kill."""

import json
from pathlib import Path

import pytest

from tests.support.roots import reseal, unseal
from tests.unit.training.models.test_registration import damage, killed_at
from tests.unit.training.test_launch import run, trained  # noqa: F401
from trainfeed.errors import ConfigError, FormatError, GateError, JobFailedError, JobRejectedError
from trainfeed.training.models import CANDIDATE, PROD, Model, ModelsFolder, current, history
from trainfeed.training.promotion import evaluate, promote

CODE = """
def main(job):
    (job.output / "model.txt").write_text("{score}")
    samples = sum(1 for _ in job.open("train").reader()())
    return {{"score": {score}, "samples": samples}}


def evaluate(job):
    (job.output / "ran").write_text(str(job.model))
    score = float((job.model / "model.txt").read_text())
    return {{"score": score + 100, "data": len(job.intervals)}}
"""
MODEL = "model: {{name: click_model, metrics: {{score: {{{gate}}}}}{more}}}"
DAYS = ("2024-03-01", "2024-03-02")


@pytest.fixture
def clicks(trained):  # noqa: F811
    trained.prebuilt(DAYS[0])
    return trained


def make(project, score=1, gate="min: 1", *, more="", name=DAYS[0]):
    """Train a model with a score; return the report of the job."""
    (project.env.datasets / "clicks" / "train.py").write_text(CODE.format(score=score))
    path = project.env.datasets / "clicks" / "dataset.yaml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("train:")]
    model = MODEL.format(gate=gate, more=more)
    lines.append(f'train: {{entry: "train:main", window: 1, {model}}}')
    path.write_text("\n".join(lines) + "\n")
    if not project.folder.generations(name):
        project.prebuilt(name)
    return run(project, name)


def judge(project, job, name=DAYS[0]):
    return evaluate(project.spec, project.env, name, job["job"])


def lift(project, version, request="a person"):
    return promote(project.spec, project.env, version, "why", request=f"{request} {version}")


def folder(project):
    return ModelsFolder(Path(project.env.root)).model("click_model")


def test_a_job_that_passes_becomes_the_candidate_and_then_prod(clicks):
    report = judge(clicks, make(clicks))
    assert (report["model"], report["version"], report["verdict"]) == (
        "click_model",
        "v0001",
        "made",
    )
    assert report["gate"]["note"] == "not compared: there is no promoted model"
    assert current(folder(clicks), CANDIDATE).name == "click_model/v0001"
    assert current(folder(clicks), PROD) is None
    assert lift(clicks, "v0001")["verdict"] == "promoted"
    model = current(folder(clicks), PROD)
    model.verify()
    assert (model.path / "model.txt").read_text() == "1"
    version = clicks.version(DAYS[0])
    assert model.manifest.data[0].fingerprint == version.manifest.fingerprint
    assert model.manifest.data[0].content_digest == version.manifest.content_digest


def test_a_job_that_does_not_pass_makes_no_version_and_leaves_prod_alone(clicks):
    lift(clicks, judge(clicks, make(clicks, 5))["version"])
    job = make(clicks, 0)
    with pytest.raises(GateError, match=r"score is 0, below min 1.*prod is unchanged") as caught:
        judge(clicks, job)
    assert caught.value.report["gate"]["metrics"][0]["value"] == 0
    assert folder(clicks).versions() == [1]
    assert json.loads(Path(job["folder"], "gate.json").read_bytes())["passed"] is False
    assert current(folder(clicks), PROD).name == "click_model/v0001"


def test_the_limit_may_be_changed_after_a_gate_was_closed(clicks):
    job = make(clicks, 0)
    with pytest.raises(GateError):
        judge(clicks, job)
    clicks.edit("min: 1", "min: 0")
    assert judge(clicks, job)["version"] == "v0001"


def test_the_gate_of_another_job_is_not_told_as_that_of_this_one(clicks, caplog):
    job, other = make(clicks), make(clicks, 3)
    report = judge(clicks, job)
    judge(clicks, other)
    gate = Path(job["folder"], "gate.json")
    assert judge(clicks, job)["gate"] == report["gate"]
    data = gate.read_bytes()
    changes = (Path(other["folder"], "gate.json").read_bytes(), data.replace(b"1", b"2", 1))
    for change in changes:
        gate.write_bytes(change)
        caplog.clear()
        assert judge(clicks, job)["gate"] == {}
        assert str(gate) in caplog.text
    gate.write_bytes(data)
    unseal(gate)
    assert judge(clicks, job)["gate"] == {}


def test_without_an_evaluation_metrics_are_compared_when_the_data_are_equal(clicks):
    lift(clicks, judge(clicks, make(clicks, 5, "max_worse: 1"))["version"])
    with pytest.raises(GateError, match="score is 3, worse by 2 than the promoted model's 5"):
        judge(clicks, make(clicks, 3, "max_worse: 1"))
    report = judge(clicks, make(clicks, 3, "max_worse: 1", name=DAYS[1]), DAYS[1])
    assert report["gate"]["compared"] is False
    assert "not compared: v0001 was trained on other data" in report["gate"]["note"]


def test_with_an_evaluation_both_models_are_measured_on_the_data_of_the_job(clicks):
    more = ', evaluate: "train:evaluate"'
    lift(clicks, judge(clicks, make(clicks, 5, "max_worse: 1", more=more))["version"])
    job = make(clicks, 3, "max_worse: 1", more=more, name=DAYS[1])
    with pytest.raises(GateError, match="score is 103, worse by 2 than the promoted model's 105"):
        judge(clicks, job, DAYS[1])
    better = judge(clicks, make(clicks, 9, "max_worse: 1", more=more, name=DAYS[1]), DAYS[1])
    assert better["metrics"] == {"score": 109, "samples": better["metrics"]["samples"], "data": 1}
    assert better["gate"]["metrics"][0]["promoted"] == 105
    models = sorted(
        path.read_text() for path in Path(job["folder"]).glob("evaluations/*/output/ran")
    )
    assert models == sorted([f"{job['folder']}/output", str(folder(clicks).version(1))])


def test_a_finished_evaluation_is_not_run_again(clicks):
    more = ', evaluate: "train:evaluate"'
    job = make(clicks, 3, "min: 200", more=more)
    for _ in range(2):
        with pytest.raises(GateError, match="score is 103"):
            judge(clicks, job)
    (ran,) = Path(job["folder"]).glob("evaluations/*/output/ran")
    before = ran.stat().st_mtime_ns
    with pytest.raises(GateError):
        judge(clicks, job)
    assert ran.stat().st_mtime_ns == before


def test_an_evaluation_that_raises_is_a_failed_job_and_makes_no_version(clicks):
    job = make(clicks, 3, more=', evaluate: "train:evaluate"')
    Path(job["folder"], "output", "model.txt").unlink()
    reseal(Path(job["folder"], "result.json"), files={})
    with pytest.raises(JobFailedError, match="fix train:evaluate"):
        judge(clicks, job)
    assert folder(clicks).versions() == []


@pytest.mark.parametrize("damage", ["digit", "neighbour"])
def test_a_gate_never_judges_by_a_result_that_was_changed(clicks, damage):
    job, other = make(clicks, 1), make(clicks, 2)
    path = Path(job["folder"], "result.json")
    if damage == "digit":
        path.write_bytes(path.read_bytes().replace(b'"score":1', b'"score":9'))
    else:
        path.write_bytes(Path(other["folder"], "result.json").read_bytes())
    with pytest.raises(FormatError):
        judge(clicks, job)
    assert folder(clicks).versions() == []


@pytest.mark.parametrize(
    "point", ["evaluate.after_gate", "evaluate.after_register", "model.before_rename"]
)
def test_after_a_kill_the_next_try_ends_with_one_version_and_one_promotion(
    clicks, monkeypatch, point
):
    job = make(clicks)
    killed_at(monkeypatch, point, lambda: judge(clicks, job))
    report = judge(clicks, job)
    for _ in range(2):
        lift(clicks, report["version"], f"job {job['job']}")
    assert report["gate"]["passed"]
    assert folder(clicks).versions() == [1]
    assert [each.version for each in history(folder(clicks), CANDIDATE)] == ["v0001"]
    assert [each.version for each in history(folder(clicks), PROD)] == ["v0001"]


def test_a_job_that_was_judged_again_later_keeps_its_version_and_its_gate(clicks):
    first, second = make(clicks, 1), make(clicks, 2)
    for job in (first, second):
        lift(clicks, judge(clicks, job)["version"])
    again = judge(clicks, first)
    assert (again["verdict"], again["version"], again["gate"]["passed"]) == (
        "adopted",
        "v0001",
        True,
    )
    assert current(folder(clicks), CANDIDATE).name == "click_model/v0002"


def test_a_job_without_a_result_and_a_data_set_without_a_model_are_refused(clicks):
    job = make(clicks)
    Path(job["folder"], "result.json").unlink()
    with pytest.raises(JobRejectedError, match=r"expected the result of job .*; train first"):
        judge(clicks, job)
    text = clicks.env.datasets / "clicks" / "dataset.yaml"
    text.write_text(text.read_text().partition(", model:")[0] + "}\n")
    with pytest.raises(ConfigError, match=r"has no model; add 'train.model'"):
        judge(clicks, job)


@pytest.mark.parametrize(("how", "prod"), [("automatic", "v0001"), ("approve", "v0002")])
def test_only_a_person_puts_a_model_of_an_earlier_interval_in_the_place_of_a_later(
    clicks, how, prod
):
    more = f", promote: {how}"
    lift(clicks, judge(clicks, make(clicks, 1, more=more, name=DAYS[1]), DAYS[1])["version"])
    report = lift(clicks, judge(clicks, make(clicks, 2, more=more))["version"])
    assert report["prod"] == prod
    assert ("note" in report) == (how == "automatic")


def test_a_damaged_promoted_model_is_named_and_the_next_one_takes_its_place(clicks, caplog):
    gate, more = "min: 1, max_worse: 0", ", promote: automatic"
    judge(clicks, make(clicks, 5, gate, more=more))
    lift(clicks, "v0001")
    damage(current(folder(clicks), PROD))
    report = judge(clicks, make(clicks, 2, gate, more=more))
    assert report["version"] == "v0002"
    assert "not compared: v0001 is damaged: expected a manifest" in report["gate"]["note"]
    assert lift(clicks, "v0002")["verdict"] == "promoted"
    assert current(folder(clicks), PROD).name == "click_model/v0002"
    assert "click_model/v0001 is replaced, it is damaged" in caplog.text


def test_a_promoted_model_with_a_damaged_file_is_not_evaluated(clicks):
    gate, more = "min: 1, max_worse: 0", ', evaluate: "train:evaluate"'
    judge(clicks, make(clicks, 5, gate, more=more))
    lift(clicks, "v0001")
    damage(current(folder(clicks), PROD), "model.txt")
    report = judge(clicks, make(clicks, 2, gate, more=more))
    assert "not compared: v0001 is damaged" in report["gate"]["note"]
    assert "model.txt" in report["gate"]["note"]


def test_the_job_of_a_damaged_version_becomes_a_version_again_and_the_candidate(clicks):
    job = make(clicks)
    judge(clicks, job)
    damage(Model.open(folder(clicks), 1))
    assert judge(clicks, job)["version"] == "v0002"
    assert judge(clicks, job)["verdict"] == "adopted"
    assert current(folder(clicks), CANDIDATE).name == "click_model/v0002"
