"""``trainfeed jobs cancel`` with a tracking server: the run ends, or the report says why not."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.cli.conftest import cli
from tests.unit.cli.training.test_jobs import DAY, cluster, launched, of
from tests.unit.training.test_tracked_launch import server

__all__ = ["cli", "cluster", "server"]


@pytest.fixture
def name(cli, cluster, project, server, monkeypatch, tmp_path):
    """The name of a job that goes on, whose run the server has."""
    path = tmp_path / "trackers.yaml"
    path.write_text(yaml.safe_dump({"tracker": {"url": server.url, "timeout_s": 30}}))
    monkeypatch.setenv("TRAINFEED_TRACKERS", str(path))
    project.edit("launcher: indexed-job", "tracking: {mlflow: tracker}, launcher: indexed-job")
    found = launched(cluster, project, cli, monkeypatch)
    assert statuses(server) == ["RUNNING"]
    return found


def statuses(server):
    return [run["status"] for run in server.runs.values()]


def test_a_cancelled_job_is_a_killed_run_at_once_and_stays_one(cli, name, server):
    status, report = of(cli("jobs", "cancel", name, "--json"))
    assert (status, report["state"], report["tracking"]) == (
        0,
        "cancelled",
        {"mlflow": "delivered"},
    )
    assert statuses(server) == ["KILLED"]
    status, _, message = cli("train", DAY)
    assert (status, "was cancelled" in message) == (1, True)
    assert statuses(server) == ["KILLED"]


def test_a_server_that_is_away_holds_no_cancellation_up_and_the_next_call_delivers(
    cli, name, server, cluster
):
    server.fault = lambda handler, _path: handler.reply(500, {}) or True
    status, report = of(cli("jobs", "cancel", name, "--json"))
    assert (status, report["state"]) == (0, "cancelled")
    assert "not delivered: TrackingError" in report["tracking"]["mlflow"]
    assert cluster.jobs() == []
    server.fault = None
    assert of(cli("jobs", "cancel", name, "--json"))[1]["tracking"] == {"mlflow": "delivered"}
    assert statuses(server) == ["KILLED"]


def test_a_specification_that_cannot_be_read_holds_no_cancellation_up(
    cli, name, project, server, caplog
):
    (project.env.datasets / "clicks" / "dataset.yaml").write_text("nme: clicks\n")
    status, report = of(cli("jobs", "cancel", name, "--json"))
    assert (status, report["state"], "tracking" in report) == (0, "cancelled", False)
    assert f"the tracking server of job {name} is not known" in caplog.text
    assert statuses(server) == ["RUNNING"]


def test_a_server_without_settings_holds_no_cancellation_up(cli, name, server, monkeypatch):
    monkeypatch.delenv("TRAINFEED_TRACKERS")
    status, report = of(cli("jobs", "cancel", name, "--json"))
    assert (status, report["state"]) == (0, "cancelled")
    assert "expected settings of the tracking server 'tracker'" in report["tracking"]["mlflow"]
