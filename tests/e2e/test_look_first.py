"""A dry run through the scheduler: green, everything after the plan skipped, nothing written.

Then the same interval for real, in the same Airflow: a version, its event, one training, the links
between them, and the page that shows both. Then all intervals by the backfill of Airflow's command
line. The data set is the one that ``trainfeed new`` makes.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from services._home import REPOSITORY
from services.airflow import AirflowOptions, AirflowStack
from services.airflow_client import AirflowRequestError
from tests.e2e.ways import until
from trainfeed.cli.scaffold import new_dataset
from trainfeed.versions.root import ROOT_MARKER, init_root

BUILD, TRAIN = "build.clicks", "train.clicks"
PLACES = ("root", "landing", "work")
TIMEOUT_S = 120.0
GUIDE = REPOSITORY / "docs/guides/trigger-and-backfill.md"
BACKFILL = (
    "airflow backfill create --dag-id build.clicks --from-date 2026-01-01 --to-date 2026-01-03"
    " --max-active-runs 4"
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Folder of a new data set, and of the places that it is built in."""
    folder = tmp_path_factory.mktemp("look")
    new_dataset(folder / "datasets", "clicks")
    init_root(folder / "root")
    return folder


@pytest.fixture(scope="module")
def stack(ground):
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(ground / "root")}},
        "HDFS_DEFAULT": {
            "conn_type": "file",
            "extra": {place: str(ground / place) for place in ("landing", "work")},
        },
    }
    environ = {
        "TRAINFEED_DATASETS": str(ground / "datasets"),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    options = AirflowOptions(preload=("numpy", "pyarrow", "pydantic"))
    stack = AirflowStack(home, environ=environ, options=options)
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags([BUILD, TRAIN])
        for dag_id in (BUILD, TRAIN):
            stack.client.unpause(dag_id)
        yield stack
    finally:
        stack.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def client(stack):
    return stack.client


def finished(client, runs):
    return client.wait_for(runs, TIMEOUT_S, lambda _: None)


def run(client, **conf):
    (ended,) = finished(client, [client.trigger(BUILD, {"window_start": "2026-01-02", **conf})])
    return ended


def states(client, ended):
    return {task.task_id: task.state for task in client.task_instances(BUILD, ended.run_id)}


def written(ground):
    written = [path for place in PLACES for path in (ground / place).rglob("*")]
    return [path for path in written if path.name != ROOT_MARKER]


SKIPPED = dict.fromkeys(("ingest", "preprocess", "convert", "check", "publish"), "skipped")


def test_a_dry_run_ends_green_and_writes_nothing(client, ground):
    ended = run(client, dry_run=True)
    assert ended.state == "success"
    assert states(client, ended) == {"plan": "success", **SKIPPED}
    (plan,) = (t for t in client.task_instances(BUILD, ended.run_id) if t.task_id == "plan")
    log = client.log(BUILD, ended.run_id, plan)
    assert "dry run of clicks/2026-01-02: nothing was written" in log
    assert "would publish  clicks/2026-01-02/g0001" in log
    # Cleared, it is a dry run still.
    client.clear(BUILD, ended.run_id)
    (again,) = finished(client, [ended])
    assert states(client, again) == {"plan": "success", **SKIPPED}
    assert written(ground) == []
    assert client.asset_events() == []
    assert client.dag_runs(TRAIN) == []


def test_the_real_run_publishes_and_trains_once_and_links_to_both(client, ground):
    ended = run(client)
    assert ended.state == "success"
    assert set(states(client, ended).values()) == {"success"}
    assert (ground / "root/clicks/versions/2026-01-02/g0001/MANIFEST.json").is_file()
    (event,) = client.asset_events()
    assert event["partition_key"] == "2026-01-02"
    until(lambda: client.dag_runs(TRAIN), "a training run")
    (training,) = finished(client, client.dag_runs(TRAIN))
    assert (training.state, training.partition_key) == ("success", "2026-01-02")
    assert set(links(client, ended, "publish")) == {"Version", "Training runs"}
    (address,) = links(client, training, "train").values()
    assert address.endswith(
        f"/dags/{TRAIN}/runs/{quote(training.run_id, safe='')}/tasks/train/xcom"
    )


def test_the_tab_of_a_run_shows_version_and_training_job_to_whoever_may_see_them(stack, client):
    (ended, *_) = [run for run in client.dag_runs(BUILD) if not run.conf.get("dry_run")]
    (view,) = (v for p in client.call("GET", "/plugins")["plugins"] for v in p["external_views"])
    assert (view["name"], view["destination"]) == ("Data set", "dag_run")
    address = view["href"].replace("{DAG_ID}", BUILD)
    address = address.replace("{RUN_ID}", quote(ended.run_id, safe=""))
    status, page = fetch(stack, address, {})
    assert (status, "g0001" in page) == (401, False)
    # As the browser does.
    status, page = fetch(stack, address, {"Cookie": f"_token={client.token()}"})
    assert status == 200
    report = client.xcom(ended, "publish")
    (training,) = client.dag_runs(TRAIN)
    job = client.xcom(training, "train")
    for shown in (report["path"], report["content_digest"], job["job"], job["folder"]):
        assert shown in page


def fetch(stack, address, headers):
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=60)
    try:
        connection.request("GET", address, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_backfill_from_the_command_line_builds_what_is_missing(stack, client, ground):
    assert BACKFILL.removeprefix("airflow ") in GUIDE.read_text()
    done = subprocess.run(
        [sys.executable, "-m", *BACKFILL.split()],
        env=stack.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with pytest.raises(AirflowRequestError, match=r"409 .*already a running backfill for dag"):
        client.backfill(BUILD, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))
    runs = finished(client, [r for r in client.dag_runs(BUILD) if r.run_type == "backfill"])
    assert [run.state for run in runs] == ["success"] * 3
    verdicts = [client.xcom(run, "publish")["verdict"] for run in runs]
    assert verdicts == ["built", "identical", "built"]
    versions = (ground / "root/clicks/versions").glob("*/g*/MANIFEST.json")
    assert sorted(path.parts[-3:-1] for path in versions) == [
        (f"2026-01-0{day}", "g0001") for day in (1, 2, 3)
    ]


def links(client, ended, task_id):
    run_id = quote(ended.run_id, safe="")
    path = f"/dags/{ended.dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links"
    return client.call("GET", path)["extra_links"]


@pytest.mark.parametrize(
    "conf", [{"window_start": "2026-01-04"}, {"dry_run": "maybe"}, {"rebuild": "a"}]
)
def test_a_trigger_with_a_wrong_value_is_refused_at_once(client, conf):
    (name,) = conf
    with pytest.raises(AirflowRequestError, match=f"400 .*Invalid input for param {name}"):
        client.trigger(BUILD, {"window_start": "2026-01-02", **conf})
