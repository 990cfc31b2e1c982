"""What Spark and Java print of a wrong setting becomes one error with its remedy."""

from __future__ import annotations

import shutil
import sys

import pytest

from trainfeed.errors import ConfigError, EngineError, MemoryLimitError
from trainfeed.pipeline.spark._submission import Submission
from trainfeed.pipeline.spark.application import SparkApplication
from trainfeed.pipeline.spark.application_files import Failure, error_of, progress_in
from trainfeed.pipeline.spark.cluster import SparkCluster

MASTER = "spark://127.0.0.1:1"
# Each as it was printed by Spark 4.1 and JDK 17 on Linux.
LINES = {
    "JAVA_HOME is not set": (ConfigError, "a JDK 17"),
    "/o/spark-class: line 71: /nonexistent/bin/java: No such file or directory": (
        ConfigError,
        "by JAVA_HOME (/nonexistent)",
    ),
    "find-spark-home: line 40: /no/such/python: No such file or directory": (
        ConfigError,
        f"got {sys.executable}",
    ),
    "    print(_find_spark_home())": (ConfigError, "make setup-spark"),
    "When running with master 'yarn' either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in": (
        ConfigError,
        "set one of them",
    ),
    "java.lang.OutOfMemoryError: Java heap space": (MemoryLimitError, "raise spark.driver.memory"),
    "Error occurred during initialization of VM": (MemoryLimitError, "spark.executor.memory"),
    "26/11/24 ERROR StandaloneSchedulerBackend: All masters are unresponsive! Giving up.": (
        EngineError,
        f"no Spark master answers at {MASTER}",
    ),
}


@pytest.fixture
def application(monkeypatch):
    """An application whose output is given to it line by line."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    made = SparkApplication(None, SparkCluster(master=MASTER, python=sys.executable))

    def after(*lines):
        for line in lines:
            made._tell(line)
        return made

    return after


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("result", [None, Failure("EngineError", "stopped SparkContext")])
def test_a_cause_that_only_the_output_tells_is_the_error(application, line, result):
    kind, part = LINES[line]
    error = application("WARN Utils: a line", line, "later")._error_of(result, 1)
    assert type(error) is kind
    assert part in str(error)
    assert line.strip() in str(error)
    assert "nothing was published" in str(error)


def test_what_the_driver_knows_better_stays(application):
    failure = Failure("PreprocessError", "offset 20: broken")
    error = application("JAVA_HOME is not set")._error_of(failure, 1)
    assert str(error) == "offset 20: broken"


def test_an_end_without_a_known_cause_has_the_end_of_the_output_without_stacks(application):
    stack = "\tat org.apache.spark.deploy.SparkSubmit$.main(SparkSubmit.scala:1177)"
    printed = "\n".join(["Exception in main: what", stack, "\t... 17 more"])
    made = application()
    made._submission = Submission([shutil.which("printf"), "%s\n", printed])
    made._submission.wait(made._tell)
    error = made._error_of(None, 3)
    assert type(error) is EngineError
    assert "status 3 without a result" in str(error)
    assert str(error).endswith("Exception in main: what")


@pytest.mark.parametrize(
    "said", ["ExecutorLostFailure (executor 3 exited)", "Python worker exited unexpectedly"]
)
def test_a_lost_process_is_told_with_what_may_have_ended_it(said):
    error = error_of(RuntimeError(f"Job aborted: {said}\n\tat a.b.C$D(C.scala:1)"), [])
    assert type(error) is EngineError
    assert "spark.executor.memoryOverhead" in str(error)
    assert "C.scala" not in str(error)


def test_an_application_that_waits_for_executors_says_so():
    line = "WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster"
    assert progress_in(line).startswith("waiting: the cluster has no free executor")


@pytest.mark.parametrize("cores", ["many", "0", "-1", "1.5", ""])
def test_cores_that_are_no_number_are_refused_before_the_start(cores):
    settings = {"spark_default": {"conf": {"spark.executor.cores": cores}}}
    with pytest.raises(ConfigError, match=r"spark\.executor\.cores is no whole number above 0"):
        SparkCluster.of(settings)


def test_a_missing_interpreter_is_named_unless_the_driver_runs_elsewhere(tmp_path):
    missing = str(tmp_path / "python")
    with pytest.raises(ConfigError, match=f"no program {missing}; nothing was started"):
        SparkCluster(python=missing).interpreter()
    there = SparkCluster(master="yarn", deploy_mode="cluster", python=missing)
    assert there.interpreter() == missing
