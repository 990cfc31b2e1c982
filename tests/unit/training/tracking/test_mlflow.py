"""Deliveries to MLflow: one run per job, each point once, bounded, and never silent."""

import logging
import threading
import time

import pytest

from tests.unit.training.points import spec
from tests.unit.training.tracking.mlflow_stand_in import StandIn, start
from trainfeed.core import faults
from trainfeed.errors import ConfigError, TrackingError
from trainfeed.training.jobs import JobRecord, JobResult, JobVersion
from trainfeed.training.tracking import Tracker, tracker_settings
from trainfeed.training.tracking.mlflow import MlflowCalls, MlflowRun

SECRET = "s3cret-token"
# Length of a fault that the limits have to cut short, far above them on a loaded machine.
FAULT_S = 30.0
DELIVERED = {"mlflow": "delivered"}


@pytest.fixture
def server(socket_enabled):
    stand_in = StandIn()
    running = start(stand_in)
    stand_in.url = f"http://127.0.0.1:{running.server_port}"
    yield stand_in
    running.shutdown()
    running.server_close()


@pytest.fixture
def job():
    versions = [
        JobVersion(
            interval=f"2026-01-0{day}",
            generation="g0001",
            path=f"points/versions/2026-01-0{day}/g0001",
            content_digest=f"{day}" * 64,
            manifest_sha256=f"{day + 4}" * 64,
        )
        for day in (1, 2)
    ]
    return spec(versions=versions)


@pytest.fixture
def record(tmp_path):
    home = tmp_path / "job"
    (home / "output").mkdir(parents=True)
    return JobRecord(home)


def tracker(server, **fields):
    settings = {"url": server.url, "token": SECRET, "timeout_s": 20, **fields}
    return Tracker(tracker_settings({"mlflow_default": settings}, "mlflow_default"), "points")


def log(record, steps, loss=lambda step: step / 2):
    lines = [f'{{"step":{step},"samples":{step},"loss":{loss(step)}}}\n' for step in steps]
    (record.home / "metrics.jsonl").write_text("".join(lines))


def finish(record, job, **metrics):
    JobResult.of_output(job.name, job.identity, metrics or {"auc": 0.75}, record.output).write(
        record.home
    )


def curve(run, name="loss"):
    return sorted((step, value) for key, step, value, _ in run["points"] if key == name)


def test_a_job_becomes_one_run_with_its_data_and_each_step_once(server, record, job):
    to = tracker(server)
    assert to.job(record, job, "RUNNING") == DELIVERED
    (run,) = server.runs.values()
    assert run["status"] == "RUNNING"
    log(record, range(1, 2501))
    finish(record, job)
    assert to.job(record, job, "FINISHED") == DELIVERED
    assert to.job(record, job, "FINISHED") == DELIVERED
    assert to.job(record, job, "RUNNING") == DELIVERED  # a launch that adopts the finished job
    assert len(server.runs) == 1
    assert run["status"] == "FINISHED"
    assert curve(run) == [(step, step / 2) for step in range(1, 2501)]
    assert curve(run, "result/auc") == [(0, 0.75)]
    assert run["params"] | {"seed": "7", "ranks": "1", "entry": "train:main"} == run["params"]
    assert [each["name"] for each in run["inputs"]] == [
        "points/2026-01-01/g0001",
        "points/2026-01-02/g0001",
    ]
    assert "5" * 64 in run["inputs"][0]["source"]


def test_nothing_is_asked_of_the_server_again_for_a_finished_run(server, record, job):
    finish(record, job)
    tracker(server).job(record, job, "FINISHED")
    server.requests.clear()
    assert tracker(server).job(record, job, "FINISHED") == DELIVERED
    assert server.requests == []


def test_values_that_are_not_finite_are_delivered(server, record, job):
    lines = [
        f'{{"step":{i},"samples":1,"loss":"{text}"}}\n' for i, text in enumerate(["nan", "-inf"])
    ]
    (record.home / "metrics.jsonl").write_text("".join(lines))
    tracker(server).job(record, job, "FINISHED")
    (run,) = server.runs.values()
    assert curve(run) == [(0, "NaN"), (1, "-Infinity")]


@pytest.mark.parametrize("point", ["run", "batch", "status"])
def test_a_delivery_that_is_killed_anywhere_is_finished_by_the_next(
    server, record, job, point, monkeypatch
):
    log(record, range(1, 1501))
    finish(record, job)
    stopped = []

    def stop(name):
        if name == f"mlflow.after_{point}" and not stopped:
            stopped.append(name)
            raise SystemExit

    monkeypatch.setattr(faults, "point", stop)
    with pytest.raises(SystemExit):
        tracker(server)._run_of(record).deliver(job, "FINISHED")
    assert stopped
    assert tracker(server).job(record, job, "FINISHED") == DELIVERED
    (run,) = server.runs.values()
    assert curve(run) == [(step, step / 2) for step in range(1, 1501)]
    assert run["status"] == "FINISHED"


def test_a_failed_job_that_runs_again_goes_on_in_its_run(server, record, job):
    to = tracker(server)
    for status in ("RUNNING", "FAILED", "RUNNING", "KILLED", "RUNNING"):
        assert to.job(record, job, status) == DELIVERED
        (run,) = server.runs.values()
        assert run["status"] == status
    assert not run["points"]
    log(record, [1, 2])
    to.job(record, job, "FINISHED")
    assert curve(run) == [(1, 0.5), (2, 1.0)]


def test_another_server_and_a_deleted_run_get_a_run_of_their_own(server, record, job):
    log(record, [1])
    tracker(server).job(record, job, "RUNNING")
    server.runs.clear()
    assert tracker(server).job(record, job, "FINISHED") == DELIVERED
    (run,) = server.runs.values()
    assert curve(run) == [(1, 0.5)]


def test_a_server_that_is_away_is_told_and_served_by_the_next_delivery(server, record, job, caplog):
    log(record, [1])
    finish(record, job)
    server.fault = lambda handler, _path: handler.reply(503, {}) or True
    with caplog.at_level(logging.WARNING):
        told = tracker(server).job(record, job, "FINISHED")
    assert told["mlflow"].startswith("not delivered: TrackingError")
    assert "503" in told["mlflow"]
    assert "all of it is kept" in caplog.text
    assert SECRET not in caplog.text + str(told) + repr(tracker(server))
    server.fault = None
    assert tracker(server).job(record, job, "FINISHED") == DELIVERED
    (run,) = server.runs.values()
    assert curve(run) == [(1, 0.5)]


def test_an_address_without_a_server_is_told(record, job, server):
    settings = {"url": "http://127.0.0.1:9", "timeout_s": 20}
    to = Tracker(tracker_settings({"a": settings}, "a"), "points")
    assert "did not answer" in to.job(record, job, "RUNNING")["mlflow"]


def test_a_certificate_that_cannot_be_read_is_told(record, job, tmp_path):
    files = {"certificate": str(tmp_path / "client.pem"), "key": str(tmp_path / "client.key")}
    to = Tracker(tracker_settings({"a": {"url": "https://127.0.0.1:9", **files}}, "a"), "points")
    assert "client.key" in to.job(record, job, "RUNNING")["mlflow"]


def test_a_server_that_hangs_or_drips_is_given_up_after_the_time_limit(server, record, job):
    over, begun_s = threading.Event(), time.monotonic()

    def drip(handler, _path):
        handler.send_response(200)
        handler.end_headers()
        while not over.wait(0.02) and time.monotonic() - begun_s < FAULT_S:
            try:
                handler.wfile.write(b" ")
            except OSError:
                break
        return True

    server.fault = drip
    calls = MlflowCalls(tracker(server, timeout_s=2).settings)
    with pytest.raises(TrackingError, match=r"took more than 2 s \(timeout_s\)"):
        calls.get("experiments/get-by-name")
    told = tracker(server, timeout_s=0.2).job(record, job, "RUNNING")
    over.set()
    assert told["mlflow"].startswith("not delivered")
    # 2 s and at most 2.2 s; without a limit, each of the two would take as long as the drips.
    assert time.monotonic() - begun_s < FAULT_S / 2


def test_what_no_request_limits_is_given_up_two_seconds_later(server, record, job, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(MlflowRun, "deliver", lambda *_: over.wait(FAULT_S))
    told = tracker(server, timeout_s=0.2).job(record, job, "RUNNING")
    over.set()
    assert told == {"mlflow": "not delivered: no end within 2.2 s"}


def test_a_redirect_is_not_followed_and_gets_no_token(server, record, job):
    other = StandIn()
    running = start(other)

    def away(handler, path):
        place = f"http://127.0.0.1:{running.server_port}{path}"
        handler.reply(302, {}, Location=place)
        return True

    server.fault = away
    told = tracker(server).job(record, job, "RUNNING")
    running.shutdown()
    running.server_close()
    assert "302" in told["mlflow"]
    assert other.headers == []


def test_a_proxy_of_the_environment_gets_no_token(server, record, job, monkeypatch):
    other = StandIn()
    running = start(other)
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{running.server_port}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    told = tracker(server).job(record, job, "RUNNING")
    running.shutdown()
    running.server_close()
    assert other.headers == []
    assert told == DELIVERED


def test_credentials_go_to_the_server_only_in_the_header(server, record, job):
    tracker(server).job(record, job, "RUNNING")
    assert {each["Authorization"] for each in server.headers} == {f"Bearer {SECRET}"}
    settings = {"url": server.url, "username": "ann", "password": SECRET}
    server.headers.clear()
    Tracker(tracker_settings({"a": settings}, "a"), "points").job(record, job, "FAILED")
    assert {each["Authorization"] for each in server.headers} == {"Basic YW5uOnMzY3JldC10b2tlbg=="}
    for path in record.home.iterdir():
        assert path.is_dir() or SECRET not in path.read_text()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"url": "file:///etc"},
        {"url": "http://ann:x@127.0.0.1"},
        {"url": f"http://127.0.0.1:x/{SECRET}@127.0.0.1"},
        {"url": "http://127.0.0.1?x=1"},
        {"url": 7},
        {"url": "http://127.0.0.1", "token": "a\nb"},
        {"url": "http://127.0.0.1", "username": "ann"},
        {"url": "http://127.0.0.1", "token": "a", "username": "b", "password": "c"},
        {"url": "http://mlflow.example", "token": SECRET},
        {"url": "http://10.0.0.1", "username": "ann", "password": SECRET},
        {"url": "http://127.0.0.1", "timeout_s": 0},
        {"url": "http://127.0.0.1", "timeout_s": float("inf")},
        {"url": "http://127.0.0.1", "tokn": SECRET},
        {"url": "https://127.0.0.1", "certificate": "client.pem"},
    ],
)
def test_wrong_settings_are_refused_without_their_values(settings):
    with pytest.raises(ConfigError, match="TRAINFEED_TRACKERS") as refused:
        tracker_settings({"mlflow_default": settings}, "mlflow_default")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://mlflow.example"},
        {"url": "https://mlflow.example", "token": SECRET},
        {"url": "http://localhost:5000", "token": SECRET},
        {"url": "http://[::1]:5000", "token": SECRET},
    ],
)
def test_credentials_go_encrypted_or_stay_on_this_machine(settings):
    assert tracker_settings({"a": settings}, "a").url == settings["url"]


def test_a_server_without_settings_is_named():
    with pytest.raises(ConfigError, match=r"tracking server 'mlflow_default', got none"):
        tracker_settings({}, "mlflow_default")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"server":1}', b'{"run":7}'])
def test_a_damaged_note_costs_requests_but_no_second_run(server, record, job, content):
    log(record, [1])
    tracker(server).job(record, job, "RUNNING")
    (record.home / "mlflow.json").write_bytes(content)
    assert tracker(server).job(record, job, "FINISHED") == DELIVERED
    (run,) = server.runs.values()
    assert curve(run) == [(1, 0.5)]
