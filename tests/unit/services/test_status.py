"""The output of ``python -m services``: processes that run, their ports, and those it has ended."""

from __future__ import annotations

import json

import pytest

from services import __main__ as command_line
from services.kafka import Kafka
from tests.unit.services.test_run import Sleeper


@pytest.fixture
def sleeper(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINFEED_SERVICES_HOME", str(tmp_path))
    service = Sleeper(tmp_path / "sleeper")
    monkeypatch.setattr(command_line, "_services", lambda names: [service])  # noqa: ARG005
    yield service
    service.stop()


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    assert ended.value.code == 0
    return capsys.readouterr()


def test_stopping_says_what_was_stopped_and_what_did_not_run(sleeper, capsys):
    sleeper.start()
    assert said(capsys, "stop").err == "sleeper: stopped sleeper\n"
    assert said(capsys, "stop").err == "sleeper: nothing was running\n"


def test_status_shows_the_ports_of_what_has_been_started(sleeper, tmp_path, capsys):
    assert "api" not in said(capsys, "status").out
    (tmp_path / "sleeper").mkdir()
    (tmp_path / "sleeper" / "ports.json").write_text(json.dumps({"api": 20123, "web": 20124}))
    assert "api 20123, web 20124" in said(capsys, "status").out


def test_asking_for_the_status_chooses_no_port(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRAINFEED_SERVICES_HOME", str(tmp_path))
    said(capsys, "status", "kafka")
    assert not (Kafka().home / "ports.json").exists()
