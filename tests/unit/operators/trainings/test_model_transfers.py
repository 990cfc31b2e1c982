"""Tasks that transfer models: stores of connections, small reports, and no secret anywhere."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from operators.trainings import (
    DownloadModelOperator,
    RequireUploadOperator,
    TrainingJobOperator,
    UploadModelOperator,
)
from tests.unit.operators.conftest import SPEC
from tests.unit.training.models.conftest import finished, folder, root
from trainfeed.training.models import register

__all__ = ["finished", "folder", "root"]

CANARY = "canary-4c1d"
MODEL = (
    "model: {name: clicks, metrics: {auc: {min: 0}},"
    " download: {path: /start, connection: store}, upload: {path: /models, connection: store}}"
)


@pytest.fixture
def store(clicks, folder, finished, root, set_connection, tmp_path) -> Path:
    """A store of a connection with a password, a start model and a version to upload."""
    text = SPEC.replace("wait: 2h}", f"wait: 2h, {MODEL}}}")
    (clicks / "dataset.yaml").write_text(text)
    (tmp_path / "store" / "models").mkdir(parents=True)
    (tmp_path / "store" / "start").mkdir()
    (tmp_path / "store" / "start" / "weights").write_text("41")
    extra = {"models": str(tmp_path / "store")}
    set_connection("store", conn_type="file", login="me", password=CANARY, extra=extra)
    set_connection("cephfs_default", extra={"path": str(root)})
    register(folder, finished(1))
    return tmp_path / "store"


def test_the_tasks_download_prove_and_upload_and_show_no_password(
    store, make_context, caplog, capfd
) -> None:
    with caplog.at_level(logging.DEBUG):
        start = DownloadModelOperator(task_id="a", dataset="clicks").execute(make_context())
        proof = RequireUploadOperator(task_id="b", dataset="clicks").execute(make_context())
        report = {"version": "v0001", "prod": "v0001"}
        task = UploadModelOperator(task_id="c", dataset="clicks", model=report)
        done, again = task.execute(make_context()), task.execute(make_context())
    assert (Path(start["path"]) / "weights").read_text() == "41"
    assert proof == {"upload": f"file://{store}/models"}
    assert (done["verdict"], again["verdict"]) == ("copied", "adopted")
    assert done["target"] == f"file://{store}/models/clicks/v0001"
    # XComs are JSON.
    shown = json.dumps([start, proof, done, again]) + caplog.text + "".join(capfd.readouterr())
    assert caplog.text
    assert CANARY not in shown
    assert CANARY not in Path("/proc/self/cmdline").read_text()


def test_a_store_that_misses_fails_the_task_before_the_training(
    store, make_context, caplog
) -> None:
    (store / "models").rmdir()
    with pytest.raises(AirflowFailException, match=r"expected a folder for models, found none"):
        RequireUploadOperator(task_id="b", dataset="clicks").execute(make_context())
    (store / "start" / "weights").unlink()
    with pytest.raises(AirflowFailException, match="found none"):
        DownloadModelOperator(task_id="a", dataset="clicks").execute(make_context())
    assert CANARY not in caplog.text


def test_the_digest_of_the_download_is_that_of_the_training(
    store, make_context, monkeypatch
) -> None:
    given: list[str | None] = []

    def train(spec, env, interval, *, start_model, tag=None):
        # The task of the training has no store: neither it nor a rank could read the password.
        given.append(start_model)
        assert env.stores == {}
        return {"job": "j"}

    monkeypatch.setattr("trainfeed.training.launch.train", train)
    context = make_context("asset_triggered", partition_key="2026-01-05")
    report = {"start_model": "a" * 64}
    TrainingJobOperator(task_id="t", dataset="clicks", start_model=report).execute(context)
    TrainingJobOperator(task_id="u", dataset="clicks").execute(context)
    assert given == ["a" * 64, None]
