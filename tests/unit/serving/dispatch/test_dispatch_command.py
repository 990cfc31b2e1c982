"""``trainfeed dispatch``: a master by command, its account, and its status."""

import json
import os
import sys

import pytest
from typer.testing import CliRunner

from tests.unit.serving.dispatch.masters import forked, known
from trainfeed.cli._app import app
from trainfeed.errors import ConfigError, LoaderError

pytestmark = pytest.mark.usefixtures("socket_enabled")


def serving(place, *more):
    arguments = [
        "dispatch", "serve", "clicks", place.asked, "--split", "train", "--port", "0",
        "--tokens", str(place.path / "tokens.txt"), "--state", str(place.path / "state"),
        "--port-file", str(place.path / "port"), "--linger-seconds", "0.5", *more,
    ]  # fmt: skip
    os.environ["TRAINFEED_ROOT"] = str(place.root)
    result = CliRunner().invoke(app, arguments)
    (place.path / "printed").write_text(result.output)
    sys.exit(result.exit_code)


def started(place, *more):
    process = forked(serving, place, *more)
    while not (place.path / "port").exists():
        assert process.is_alive()
    place.port = int((place.path / "port").read_text())
    return process


def status(place, *more):
    arguments = ["dispatch", "status", place.url, "--token-file", str(place.token_file), *more]
    return CliRunner().invoke(app, arguments)


def test_a_master_by_command_serves_its_passes_and_ends_with_an_account(place):
    process = started(place, "--passes", "1", "--audit-log", str(place.path / "audit"))
    shown = status(place, "--json")
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["todo"] == place.tasks().num_tasks
    assert "clicks" in status(place).stdout
    assert sorted(map(known, place.reader()())) == place.expected()
    process.join(120)
    assert process.exitcode == 0
    assert str(place.tasks().num_tasks) in (place.path / "printed").read_text()
    assert "trainer" in (place.path / "audit").read_text()


def test_a_pass_with_failed_tasks_is_status_1_of_master_and_status(place):
    for path in place.tasks().versions[0].shard_paths("train"):
        path.rename(path.with_suffix(".away"))
    process = started(place, "--max-failures", "1")
    for _ in range(-(-place.tasks().num_tasks // 3)):
        with pytest.raises(LoaderError):
            list(place.reader(tasks_per_lease=3)())
    assert status(place).exit_code == 1
    process.terminate()
    process.join(120)
    assert process.exitcode == 1
    assert "NotFoundError" in (place.path / "printed").read_text()


def test_a_master_for_other_machines_needs_a_certificate(place):
    arguments = ["dispatch", "serve", "clicks", place.asked, "--split", "train"]
    arguments += ["--tokens", str(place.path / "tokens.txt"), "--state", str(place.path / "state")]
    result = CliRunner().invoke(app, [*arguments, "--host", "0.0.0.0"])
    assert isinstance(result.exception, ConfigError)
    assert not (place.path / "state").exists()


def test_a_split_that_is_not_there_is_refused(place, monkeypatch):
    monkeypatch.setenv("TRAINFEED_ROOT", str(place.root))
    arguments = ["dispatch", "serve", "clicks", place.asked, "--split", "none"]
    arguments += ["--tokens", str(place.path / "tokens.txt"), "--state", str(place.path / "state")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, ConfigError)
    assert "has no split 'none'" in str(result.exception)
