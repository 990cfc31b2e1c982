"""The command line of spark-submit, its options, and the process that runs it, without Spark."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.processes import until
from trainfeed.core.process_ties import has_ended
from trainfeed.errors import ConfigError
from trainfeed.pipeline.spark import _submission as submission
from trainfeed.pipeline.spark.cluster import SPARK_CONNECTION, SparkCluster
from trainfeed.pipeline.spark.shipment import Shipment

SHIPMENT = Shipment(Path("/tmp/trainfeed-package.zip"), Path("/tmp/trainfeed-dataset.zip"))


@pytest.fixture
def submit(tmp_path):
    """A program in the place of spark-submit."""
    path = tmp_path / "spark-submit"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return str(path)


def cluster(**settings):
    return SparkCluster.of({SPARK_CONNECTION: settings})


def option(command, name):
    return command[command.index(name) + 1]


@pytest.mark.parametrize(
    ("settings", "master", "mode"),
    [
        ({}, "local[*]", "client"),
        ({"master": "spark://host:7077"}, "spark://host:7077", "client"),
        ({"master": "yarn", "deploy_mode": "cluster"}, "yarn", "cluster"),
        (
            {"master": "k8s://https://host:6443", "deploy_mode": "cluster"},
            "k8s://https://host:6443",
            "cluster",
        ),
    ],
)
def test_every_master_gets_the_standard_options(submit, settings, master, mode):
    found = cluster(submit=submit, **settings)
    command = submission.command_of(
        found,
        "trainfeed clicks/2024-03-01",
        SHIPMENT,
        Path("/private/options"),
        "hdfs://n/job.json",
    )
    assert command[0] == submit
    assert option(command, "--master") == master
    assert option(command, "--deploy-mode") == mode
    assert option(command, "--properties-file") == "/private/options"
    assert option(command, "--py-files") == str(SHIPMENT.package)
    assert option(command, "--files") == str(SHIPMENT.folder)
    program, job = command[-2:]
    assert Path(program).name == "_driver.py"
    assert job == "hdfs://n/job.json"


def test_no_setting_replaces_the_options_that_shards_depend_on(submit, project):
    found = cluster(
        submit=submit,
        conf={
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
            "spark.executor.memoryOverhead": "7g",
        },
    )
    options = submission.options_of(found, project.spec)
    assert options["spark.sql.adaptive.enabled"] == "false"
    assert options["spark.sql.execution.arrow.maxRecordsPerBatch"] == "1"
    assert options["spark.executor.memoryOverhead"] == "7g"


def test_java_has_our_options_with_a_local_master_alone(submit, project):
    name = "spark.driver.defaultJavaOptions"
    here = submission.options_of(cluster(submit=submit, master="local[2]"), project.spec)
    assert "-XX:TieredStopAtLevel=1" in here[name]
    there = cluster(submit=submit, master="spark://host:7077")
    assert name not in submission.options_of(there, project.spec)
    own = cluster(submit=submit, master="local[2]", conf={name: "-Da=b"})
    assert submission.options_of(own, project.spec)[name] == "-Da=b"


def test_executors_get_memory_for_a_task_at_each_core(submit, project):
    conf = {"spark.executor.cores": "3"}
    options = submission.options_of(cluster(submit=submit, conf=conf), project.spec)
    assert options["spark.executor.memoryOverhead"] == f"{3 * (512 + 512)}m"


def test_secrets_stand_in_a_file_of_this_account_alone(tmp_path, submit):
    options = {"spark.authenticate.secret": "cañary\n=x", "spark.executor.memory": "1g"}
    path = submission.write_options(options, tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text("latin-1").splitlines() == [
        r"spark.authenticate.secret=ca\u00f1ary\u000a\u003dx",
        "spark.executor.memory=1g",
    ]
    command = submission.command_of(cluster(submit=submit), "n", SHIPMENT, path, "job")
    assert not any("ary" in argument for argument in command)
    assert "ary" not in repr(cluster(submit=submit, conf=options))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"master": "mesos://x"}, "master"),
        ({"colour": "red"}, "colour"),
        ({"conf": {"spark.executor.cores": 2}}, "conf.spark.executor.cores"),
        ({"conf": {"secret.password": "canary"}}, "conf"),
        ({"master": "spark://h:1", "deploy_mode": "cluster"}, "deploy_mode cluster beside"),
    ],
)
def test_wrong_settings_are_named_without_their_values(settings, said):
    with pytest.raises(ConfigError, match=said) as caught:
        cluster(**settings)
    assert "canary" not in str(caught.value)


def test_the_connection_that_is_asked_for_is_taken_and_named():
    settings = {SPARK_CONNECTION: {}, "spark_prod": {"master": "yarn"}}
    found = SparkCluster.of(settings, "spark_prod")
    assert (found.connection, found.master) == ("spark_prod", "yarn")
    with pytest.raises(ConfigError, match="'submit' of spark_prod"):
        SparkCluster.of({"spark_prod": {"submit": "/no/such"}}, "spark_prod").program()
    with pytest.raises(ConfigError, match=r"Spark cluster for spark_prod.*spark_prod: {master"):
        SparkCluster.of({"spark_prod": {"connection": "canary"}}, "spark_prod")


def test_only_the_usual_connection_has_defaults():
    assert SparkCluster.of({}).master == "local[*]"
    with pytest.raises(ConfigError) as caught:
        SparkCluster.of({"spark_test": {"master": "yarn"}}, "spark_prod")
    for part in ("'spark_prod'", "TRAINFEED_SPARK", "known there: spark_test", "add them"):
        assert part in str(caught.value)


def test_a_missing_spark_is_named_with_its_remedy(tmp_path):
    with pytest.raises(ConfigError, match="make setup-spark"):
        cluster(submit=str(tmp_path / "none")).program()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with environments of trainfeed and Spark side by side, and a PATH of its own."""
    folders = {name: tmp_path / name / "bin" for name in (".venv", ".venv-spark", "system")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(folders[".venv"] / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("PATH", str(folders["system"]))
    return folders


def add_spark(folder):
    program = folder / "spark-submit"
    program.write_text("#!/bin/sh\necho submitted\n")
    program.chmod(0o755)
    (folder / "python").touch()
    return program


def test_spark_is_found_beside_the_interpreter_then_where_make_puts_it_then_on_path(machine):
    found = cluster()
    with pytest.raises(ConfigError):
        found.program()
    for place in ("system", ".venv-spark", ".venv"):
        expected = add_spark(machine[place])
        assert found.program() == str(expected)
        assert found.interpreter() == str(expected.with_name("python"))


def test_a_link_on_path_stands_for_the_program_and_its_environment(machine, tmp_path):
    real = tmp_path / "spark" / "bin"
    real.mkdir(parents=True)
    program = add_spark(real)
    (machine["system"] / "spark-submit").symlink_to(program)
    assert cluster().program() == str(program)
    assert cluster().interpreter() == str(program.with_name("python"))


@pytest.mark.parametrize("place", ["system", ".venv-spark", ".venv"])
def test_spark_is_started_wherever_it_was_found(machine, monkeypatch, place):
    add_spark(machine[place])
    command = submission.command_of(cluster(), "n", SHIPMENT, Path("/options"), "job")
    monkeypatch.undo()
    running, lines = submission.Submission(command), []
    assert (running.wait(lines.append), lines) == (0, ["submitted"])


def test_the_end_of_the_output_is_kept_and_the_status_returned():
    script = "import sys; [print(n) for n in range(1000)]; sys.exit(7)"
    running = submission.Submission([sys.executable, "-c", script])
    lines = []
    assert running.wait(lines.append) == 7
    assert lines == [str(n) for n in range(1000)]
    assert running.tail.splitlines() == [str(n) for n in range(960, 1000)]


def test_a_cancelled_application_ends_with_all_its_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "_GRACE_S", 0.2)
    script = (
        "import os, signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " child = subprocess.Popen(['sleep', '60']);"
        f" open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid)); child.wait()"
    )
    running = submission.Submission([sys.executable, "-c", script])
    waiting = threading.Thread(target=running.wait)
    waiting.start()
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    running.cancel()
    waiting.join()
    assert running.is_cancelled
    until(lambda: has_ended(int((tmp_path / "pid").read_text())))


def test_an_application_ends_with_the_process_that_submitted_it(tmp_path):
    inner = (
        f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()));"
        " time.sleep(60)"
    )
    outer = (
        "import sys; from trainfeed.pipeline.spark._submission import Submission;"
        f" Submission([sys.executable, '-c', {inner!r}]).wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", outer], env=os.environ)
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: has_ended(int((tmp_path / "pid").read_text())))
