"""Start models and uploads around a training: by content, by each call once, whole or absent."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.forks import in_a_fork
from tests.unit.training.promotion.test_promotion import CODE, DAYS, folder, judge, lift
from tests.unit.training.test_launch import trained  # noqa: F401
from trainfeed.core import faults
from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    ConfigError,
    ConflictError,
    JobRejectedError,
    NotFoundError,
    SpecError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores import folder_transfer as _transfer
from trainfeed.files.stores.folder_manifest import TRANSFER_MANIFEST
from trainfeed.files.stores.folder_transfer import upload
from trainfeed.files.stores.local import LocalFileSystem
from trainfeed.training import TrainingJob
from trainfeed.training.jobs import JobRecord, JobRoots, JobSpec
from trainfeed.training.launch import render, train
from trainfeed.training.models import Model, ModelsFolder
from trainfeed.training.transfers import (
    download_start_model,
    open_start_model,
    require_upload,
    upload_model,
)

STARTS = """
def main(job):
    start = float((job.start_model / "weights.txt").read_text())
    (job.output / "model.txt").write_text(str(start + 1))
    return {"score": start + 1}
"""
MODEL = "model: {name: click_model, metrics: {score: {min: 0}}, %s}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "models").mkdir(parents=True)
    (tmp_path / "store" / "start").mkdir()
    (tmp_path / "store" / "start" / "weights.txt").write_text("41")
    return tmp_path / "store"


@pytest.fixture
def clicks(trained, store):  # noqa: F811
    trained.prebuilt(DAYS[0])
    return replace(trained, env=replace(trained.env, stores={"hdfs_default": str(store)}))


def arranged(project, more: str, code: str = STARTS):
    (project.env.datasets / "clicks" / "train.py").write_text(code)
    path = project.env.datasets / "clicks" / "dataset.yaml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("train:")]
    lines.append(f'train: {{entry: "train:main", window: 1, {MODEL % more}}}')
    path.write_text("\n".join(lines) + "\n")
    return project


POINTS = (
    "transfer.after_temporary",
    "transfer.after_file",
    "transfer.after_manifest",
    "transfer.before_rename",
    "transfer.after_rename",
)
DOWNLOAD = "download: {path: /start}"
UPLOAD = "upload: {path: /models}"


def run(project, **options):
    return train(project.spec, project.env, project.interval(DAYS[0]), **options)


def test_a_training_starts_from_the_downloaded_model_and_names_it(clicks) -> None:
    report = run(arranged(clicks, DOWNLOAD))
    assert report["metrics"]["score"] == 42
    job = JobRecord(Path(report["folder"])).job()
    assert job.start_model == report["start_model"]
    kept = open_start_model(Path(clicks.env.root), job.start_model)
    assert oct(kept.stat().st_mode & 0o777) == "0o755"
    assert oct((kept / "weights.txt").stat().st_mode & 0o777) == "0o444"


def test_another_start_model_is_another_job_and_the_same_one_is_adopted(clicks, store) -> None:
    first = run(arranged(clicks, DOWNLOAD))
    assert run(clicks)["verdict"] == "adopted"
    (store / "start" / "weights.txt").write_text("7")
    second = run(clicks)
    assert (second["verdict"], second["metrics"]["score"]) == ("ran", 8)
    assert second["job"] != first["job"]
    given = run(clicks, start_model=first["start_model"])
    assert (given["verdict"], given["job"]) == ("adopted", first["job"])


def test_jobs_without_a_start_model_keep_their_identity_and_bytes() -> None:
    fields = {
        "dataset": "clicks", "interval": "2024-03-01", "folder": ".", "entry": "train:main",
        "code": "c" * 64, "seed": 7, "ranks": 1, "versions": [],
    }  # fmt: skip
    job = JobSpec.named(**fields)
    assert job.name == "clicks-2024-03-01-ad3063248b7c"
    assert "start_model" not in job.to_json()
    assert JobSpec.named(**fields, start_model="a" * 64).name != job.name


def test_the_start_model_of_a_rank_is_compared_with_the_job(clicks, tmp_path) -> None:
    report = run(arranged(clicks, DOWNLOAD))
    record = JobRecord(Path(report["folder"]))
    roots = JobRoots(Path(clicks.env.root), clicks.env.datasets / "clicks")
    job = TrainingJob(record.job(), 0, 1, record.output, roots)
    kept = job.start_model
    (kept / "weights.txt").chmod(0o644)
    (kept / "weights.txt").write_text("other")
    with pytest.raises(JobRejectedError, match="clear the task download_model"):
        job.start_model  # noqa: B018
    no_root = TrainingJob(record.job(), 0, 1, record.output, JobRoots(None, None))
    with pytest.raises(JobRejectedError, match="TRAINFEED_JOB_ROOT"):
        no_root.start_model  # noqa: B018
    plain = TrainingJob(replace_start(record.job()), 0, 1, record.output, roots)
    assert plain.start_model is None


def replace_start(job: JobSpec) -> JobSpec:
    return job.model_copy(update={"start_model": None})


def test_a_missing_start_model_is_an_error_before_anything_is_made(clicks) -> None:
    arranged(clicks, "download: {path: /absent}")
    with pytest.raises(NotFoundError, match="absent"):
        run(clicks)
    assert list(clicks.folder.path.glob("training/[!_]*")) == []
    arranged(clicks, "download: {path: /start, connection: elsewhere}")
    with pytest.raises(ConfigError, match="expected a connection 'elsewhere'"):
        run(clicks)


def test_a_dry_run_reads_the_digest_of_an_uploaded_start_model_and_copies_nothing(
    clicks, store, monkeypatch
) -> None:
    upload(store / "start", Location.parse(str(store / "uploaded")))
    arranged(clicks, "download: {path: /uploaded}")
    with monkeypatch.context() as patch:
        patch.setattr(_transfer, "copy_file", None)
        shown = render(clicks.spec, clicks.env, clicks.interval(DAYS[0]))
    assert not ModelsFolder(Path(clicks.env.root)).start_models.exists()
    assert run(clicks)["job"] in json.dumps(shown)


def test_a_dry_run_names_the_job_that_would_run(clicks) -> None:
    arranged(clicks, DOWNLOAD)
    shown = render(clicks.spec, clicks.env, clicks.interval(DAYS[0]))
    assert run(clicks)["job"] in json.dumps(shown)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("download: {}", "path"),
        ("upload: {connection: hdfs_default}", "path"),
        ("upload: {path: models}", "absolute path"),
        ("upload: {path: /a/../b}", "absolute path"),
        ("download: {path: /a/}", "absolute path"),
        ("download: {path: '/a\\\\b'}", "backslashes"),
        ("upload: {path: /a, password: x}", "password"),
        ("upload: hdfs://user:secret@host/models", "upload"),
    ],
)
def test_a_missing_or_wrong_folder_is_an_error_of_the_specification(clicks, more, what) -> None:
    arranged(clicks, more)
    with pytest.raises(SpecError, match=what):
        clicks.spec  # noqa: B018


def promoted(project, more: str):
    report = run(arranged(project, more, CODE.format(score=1)))
    version = judge(project, report)["version"]
    lift(project, version)
    return version


def test_a_promoted_model_is_uploaded_once_with_its_own_manifest(clicks, store) -> None:
    version = promoted(clicks, UPLOAD)
    assert require_upload(clicks.spec, clicks.env)["upload"] == f"file://{store}/models"
    first, again = (upload_model(clicks.spec, clicks.env, version) for _ in range(2))
    assert (first["verdict"], again["verdict"]) == ("copied", "adopted")
    there = store / "models" / "click_model" / version
    model = Model.open(folder(clicks), 1)
    for name in ("model.txt", "MANIFEST.json", "MANIFEST.sha256"):
        assert (there / name).read_bytes() == (model.path / name).read_bytes()
    assert sorted(path.name for path in (store / "models").rglob("*")) == sorted(
        ["click_model", version, "model.txt", "MANIFEST.json", "MANIFEST.sha256", TRANSFER_MANIFEST]
    )


def test_a_step_that_was_killed_at_any_point_is_completed_by_its_retry(
    clicks, store, monkeypatch
) -> None:
    version = promoted(clicks, f"{DOWNLOAD}, {UPLOAD}")
    for number, point in enumerate(POINTS):
        (store / "start" / "weights.txt").write_text(str(number))
        spec = clicks.spec.model_copy()
        steps = (
            lambda: upload_model(spec, clicks.env, version),  # noqa: B023
            lambda: download_start_model(spec, clicks.env),  # noqa: B023
        )
        for step in steps:
            with monkeypatch.context() as patched:
                patched.setenv(faults.VARIABLE, f"{point}:kill")
                faults._plan.cache_clear()
                assert in_a_fork(step) == -9
            faults._plan.cache_clear()
            adopted = point == "transfer.after_rename"
            assert step()["verdict"] == ("adopted" if adopted else "copied"), point
        left = [*store.rglob(".*"), *(Path(clicks.env.root) / "models").rglob(".*.transfer")]
        assert left == []
        shutil.rmtree(store / "models" / "click_model")


def test_an_upload_that_cannot_be_is_found_before_the_training(clicks, store, monkeypatch) -> None:
    arranged(clicks, "upload: {path: /absent}")
    with pytest.raises(NotFoundError, match="make the folder, or correct the path"):
        require_upload(clicks.spec, clicks.env)
    (store / "file").write_text("x")
    arranged(clicks, "upload: {path: /file}")
    with pytest.raises(NotFoundError, match="got a file"):
        require_upload(clicks.spec, clicks.env)
    arranged(clicks, UPLOAD)

    def denied(*_: object) -> None:
        raise AccessDeniedError("denied")

    monkeypatch.setattr("trainfeed.files.stores.local.LocalFileSystem.make_dir", denied)
    with pytest.raises(AccessDeniedError):
        require_upload(clicks.spec, clicks.env)
    assert list((store / "models").iterdir()) == []


def test_a_proof_that_was_killed_leaves_nothing_after_the_next(clicks, store, monkeypatch) -> None:
    spec = arranged(clicks, UPLOAD).spec
    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "delete", lambda *_, **__: os.kill(os.getpid(), 9))
        assert in_a_fork(lambda: require_upload(spec, clicks.env)) == -9
    assert len(list((store / "models").iterdir())) == 1
    require_upload(spec, clicks.env)
    assert list((store / "models").iterdir()) == []


def test_a_damaged_version_is_not_uploaded(clicks, store) -> None:
    version = promoted(clicks, UPLOAD)
    weights = Model.open(folder(clicks), 1).path / "model.txt"
    weights.chmod(0o644)
    weights.write_text("?")
    with pytest.raises(ChecksumError):
        upload_model(clicks.spec, clicks.env, version)
    assert list((store / "models").iterdir()) == []


def test_a_version_of_another_installation_under_the_name_is_kept(clicks, store) -> None:
    version = promoted(clicks, UPLOAD)
    (store / "models" / "click_model" / version).mkdir(parents=True)
    (store / "models" / "click_model" / version / "mine").write_text("mine")
    with pytest.raises(ConflictError, match="nothing was changed"):
        upload_model(clicks.spec, clicks.env, version)


def test_a_data_set_without_transfers_says_which_field_to_add(clicks) -> None:
    arranged(clicks, "promote: automatic")
    with pytest.raises(ConfigError, match=r"train\.model\.download"):
        download_start_model(clicks.spec, clicks.env)
    with pytest.raises(ConfigError, match=r"train\.model\.upload"):
        upload_model(clicks.spec, clicks.env, "v0001")
