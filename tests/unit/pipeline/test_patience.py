"""A file system whose server is started again costs a stage no try; one that stays away does."""

import socket
from dataclasses import replace

import pytest

from tests.unit.pipeline.log_project import DAY, make_log_project
from trainfeed.errors import FileReplacedError, NotFoundError, Outcome, StorageError
from trainfeed.files.stores.hadoop import hadoop_error, outage
from trainfeed.pipeline import Build
from trainfeed.pipeline import run_stage as _stage
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs.source_readers import LogReader
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess


@pytest.fixture
def project(tmp_path):
    return make_log_project(tmp_path)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that were made, none of which takes any time."""
    made = []
    patience = replace(_stage.PATIENCE, pause=made.append)
    monkeypatch.setattr(_stage, "PATIENCE", patience)
    return made


def planned(project):
    return plan(project.spec, project.interval(), project.env).ref


def fail_first(monkeypatch, error, times):
    """Let the first so many looks at a folder of logs fail."""
    errors = [error] * times

    def check(*arguments, original=LogReader.check):
        if errors:
            raise errors.pop()
        return original(*arguments)

    monkeypatch.setattr(LogReader, "check", check)


def test_a_server_that_comes_back_within_seconds_costs_no_try(project, pauses, monkeypatch):
    fail_first(monkeypatch, outage("webhdfs://namenode:9870/x", "connection refused"), 3)
    assert project.build()["source_reads"] == 220
    assert pauses == [1, 2, 4]


def test_a_file_that_a_second_run_of_the_plan_replaces_is_read_again(project, pauses, monkeypatch):
    fail_first(monkeypatch, FileReplacedError("00000.arrow: replaced while it was read"), 1)
    assert project.build()["source_reads"] == 220
    assert pauses == [1]


def test_a_file_that_is_replaced_for_ever_is_given_up(project, pauses, monkeypatch):
    fail_first(monkeypatch, FileReplacedError("00000.arrow: replaced while it was read"), 99)
    with pytest.raises(FileReplacedError):
        project.build()
    assert pauses == [1, 2, 4, 8]
    assert FileReplacedError.outcome is Outcome.RETRY


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_a_server_that_stays_away_is_given_up_after_a_quarter_of_a_minute(
    project, pauses, scheme, socket_enabled
):
    ref = planned(project)
    ingest(Build(project.spec, project.env, ref), 0)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"{scheme}://127.0.0.1:{unused.getsockname()[1]}/"
    away = replace(project.env, logs={"hdfs_default": address})
    with pytest.raises(StorageError, match="retry when the file system answers again"):
        preprocess(Build(project.spec, away, ref), 0)
    assert sum(pauses) == 15
    assert not project.folder.interval(DAY).exists()


@pytest.mark.parametrize(
    "error",
    [NotFoundError("gone"), StorageError("a disk that is broken is so in a second, too")],
    ids=["for_good", "local"],
)
def test_nothing_else_is_tried_again(project, pauses, monkeypatch, error):
    fail_first(monkeypatch, error, 1)
    with pytest.raises(type(error)):
        project.build()
    assert pauses == []


def test_what_a_server_refuses_for_good_is_no_outage():
    assert hadoop_error("webhdfs://x", None, "End of File Exception between hosts").is_outage
    assert hadoop_error("webhdfs://x", "SafeModeException", "in safe mode").is_outage
    assert not hadoop_error("webhdfs://x", "AccessControlException", "no").is_outage
    assert not hadoop_error("webhdfs://x", "FileNotFoundException", "no").is_outage
