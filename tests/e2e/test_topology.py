"""The processes of docker-compose.yaml without containers: started, checked, killed, built with.

A PostgreSQL server with a port and a password, prepared by the command of the service ``init``;
LocalExecutor, API server, scheduler, DAG processor and triggerer. Scheduler and triggerer die
while one task is in the middle of a stage and another one waits in the triggerer.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from services._home import REPOSITORY
from services._process import Daemon
from services.airflow import admin_password
from tests.e2e.ways import BUILD, NAMES, Ground, contents, until
from trainfeed.files.stores import Location

POINT = "preprocess.before_spill"
ONE_DAY = [("catchup: false", "catchup: true"), ("end: 2014-01-01", "end: 2013-01-01")]
LOGS_BUILD, NUM_LINES = "build.digits", 120
LOGS_WAIT = [
    ("catchup: false", "catchup: true"),
    ("end: 2024-01-05", "end: 2024-01-01"),
    ("format: lines", "wait: 36500d"),
]
POOLS = {"kafka_reads": {"slots": 3, "description": "readers"}}
SERVICES = YAML(typ="safe").load(REPOSITORY / "docker-compose.yaml")["services"]
ENVIRON = {
    # How soon a new scheduler takes over from one that died without a word.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "6",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "true",
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def by_command_line(on_broker, tmp_path_factory):
    ground = Ground.make(tmp_path_factory.mktemp("cli"), on_broker.kafka)
    ground.command("build", "flights", "--interval", NAMES[0])
    return ground


@pytest.fixture(scope="module")
def ground(on_broker, tmp_path_factory):
    """One scheduled day, one of whose tasks stops in its work; and logs that are not there yet."""
    made = Ground.make(tmp_path_factory.mktemp("topology"), on_broker.kafka, edits=ONE_DAY)
    digits = made.datasets / "digits"
    shutil.copytree(REPOSITORY / "include/datasets/digits", digits)
    spec = (digits / "dataset.yaml").read_text()
    # One day of long ago that the schedule makes a run of, and that is waited for all the same.
    for old, new in [("/logs/digits/", f"{made.hdfs}/logs/"), *LOGS_WAIT]:
        assert old in spec
        spec = spec.replace(old, new)
    (digits / "dataset.yaml").write_text(spec)
    port = {"AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(free_port())}
    return replace(made, faults=(POINT,), action="stop", environ={**ENVIRON, **port})


@pytest.fixture(scope="module")
def airflow(ground):
    made = ground.airflow(database="server")
    try:
        made.stack.prepare()
        initialize(made.stack)
    except BaseException:
        made.stack.stop()
        raise
    with made as airflow:
        yield airflow


def initialize(stack):
    """Run what the service ``init`` runs, on a database that has no tables yet."""
    own = {"ADMIN_PASSWORD": "a password of ours", "POOLS": json.dumps(POOLS)}
    command = [sys.executable, *SERVICES["init"]["command"][1:]]
    done = subprocess.run(
        command, env={**stack.environ, **own}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pools: kafka_reads" in done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def health_check(stack, part):
    """Start the check that docker-compose.yaml has for a part, with the ports of this machine."""
    ports = {
        "localhost:8080": f"127.0.0.1:{stack.port}",
        "localhost:8974": "127.0.0.1:"
        + stack.environ["AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT"],
    }
    command = SERVICES[part]["healthcheck"]["test"][1:]
    for theirs, ours in ports.items():
        command = [word.replace(theirs, ours) for word in command]
    program = [sys.executable, "-m", "airflow"] if command[0] == "airflow" else [sys.executable]
    return subprocess.Popen(
        [*program, *command[1:]], env=stack.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_init_made_the_pools_and_the_password(airflow):
    assert airflow.client.pools() == {"default_pool": 128, "kafka_reads": 3}
    assert admin_password(airflow.stack.home) == "a password of ours"


def test_the_health_checks_of_the_composition_hold(airflow):
    parts = [part for part in airflow.stack.status() if part != "postgres"]
    checks = {part: health_check(airflow.stack, part) for part in parts}
    for part, check in checks.items():
        output = b"".join(check.communicate(timeout=60))
        assert check.returncode == 0, (part, output)


def test_builds_survive_the_death_of_scheduler_and_triggerer(airflow, ground, by_command_line):
    """One build in the middle of a stage, another one waiting for its logs."""
    airflow.client.unpause(BUILD)
    airflow.client.unpause(LOGS_BUILD)
    until((ground.path / "fired" / f"{POINT}.fired").exists, "the stopped task")
    until(lambda: airflow.client.dag_runs(LOGS_BUILD), "the run that waits")
    (waiting,) = airflow.client.dag_runs(LOGS_BUILD)
    until(lambda: state(airflow.client, waiting, "wait_for_logs") == "deferred", "the waiting task")
    (run,) = airflow.client.dag_runs(BUILD)
    assert (run.run_type, run.state) == ("scheduled", "running")
    before = airflow.stack.status()
    for part in ("scheduler", "triggerer"):
        airflow.stack.kill(part)
    write_logs(ground)
    start_again(airflow.stack)
    after = airflow.stack.status()
    assert [part for part in after if after[part] != before[part]] == ["scheduler", "triggerer"]
    (report,) = airflow.finish([run], trainings=1)
    assert len(airflow.client.dag_runs(BUILD)) == 1
    assert report["verdict"] == "built"
    assert report["tries"]["plan"] == 1
    assert ground.folder.last_generation(NAMES[0]) == 1
    assert len(ground.jobs()) == 1
    assert contents(ground.versions(NAMES[:1])) == contents(by_command_line.versions(NAMES[:1]))
    (waited,) = airflow.succeed([waiting])
    assert airflow.client.xcom(waited, "publish")["samples"] == NUM_LINES


def start_again(stack):
    """The scheduler by the command of docker-compose.yaml, the triggerer by ours."""
    command = [sys.executable, *SERVICES["scheduler"]["command"][1:]]
    Daemon("scheduler", stack.home).spawn(command, environ=stack.environ)
    stack.start()
    stack.wait()


def state(client, run, task_id):
    tasks = client.task_instances(run.dag_id, run.run_id)
    return next((task.state for task in tasks if task.task_id == task_id), None)


def write_logs(ground):
    """A day of digits that are all alike, complete."""
    line = base64.b64encode(bytes(range(16)) * 4) + b"\t7\n"
    folder = Location.parse(f"{os.environ['TEST_WEBHDFS_URI']}{ground.hdfs}/logs/dt=2024-01-01")
    for name, data in (("part-00000.txt", line * NUM_LINES), ("_SUCCESS", b"")):
        (folder / name).write_atomic(lambda file, data=data: file.write(data))
