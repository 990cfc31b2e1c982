"""``trainfeed waive`` and ``waivers ls``: what they show, write, refuse, and their statuses."""

import json
import os
import pwd
from datetime import UTC, datetime, timedelta

import pytest

from trainfeed.errors import AccessDeniedError
from trainfeed.versions.waive import read_waivers

DAY = "2024-03-01"
TARGET = f"clicks/{DAY}"
GATES = "quality: [{check: quarantine_ratio, max: 0.05}, {check: range, field: value, max: 20}]"
DECISION = ("--why", "a storm", "--until", "2999-01-01")


@pytest.fixture
def until():
    """A decision whose end is a month ahead."""
    return ("--why", "a storm", "--until", f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}")


@pytest.fixture
def refused(cli, project):
    """A build that its gates refused."""
    project.edit("seed: 7", f"seed: 7\n{GATES}")
    status, _, message = cli("build", "clicks", "--interval", DAY)
    assert status == 1
    assert f"trainfeed waive {TARGET} --plan " in message
    return project


def written(project):
    return read_waivers(project.folder, DAY, project.folder.plan_ids(DAY)[0])


def test_a_look_shows_the_gates_and_writes_nothing(cli, refused):
    status, output, _ = cli("waive", TARGET, "--dry-run")
    assert status == 0
    assert "quarantine_ratio is 0.0983607, allowed: max 0.05" in output
    assert "range of value is" in output
    status, output, _ = cli("waive", TARGET, "--dry-run", "--json")
    assert [gate["check"] for gate in json.loads(output)["failed"]] == ["quarantine_ratio", "range"]
    assert written(refused) == {}


def test_a_waiver_says_what_to_run_next_and_stands_in_the_version(cli, refused, until):
    status, output, message = cli("waive", TARGET, *until)
    account = pwd.getpwuid(os.getuid()).pw_name
    assert status == 0
    assert f"2 of 2 waived by {account} until " in output
    assert f"trainfeed build clicks --interval {DAY}" in message
    status, output, _ = cli("waivers", "ls", "clicks")
    assert (status, "holds" in output, "a storm" in output) == (0, True, True)
    assert cli("build", "clicks", "--interval", DAY)[0] == 0
    assert "a storm" in cli("show", TARGET)[1]
    (state,) = json.loads(cli("waivers", "ls", "--json")[1])
    assert (state["state"], state["generation"]) == ("used", "g0001")


def test_a_waiver_of_one_gate_leaves_the_other(cli, refused, until):
    status, output, _ = cli("waive", TARGET, *until, "--check", "range", "--who", "ana", "--json")
    report = json.loads(output)
    assert status == 0
    assert report["waiver"]["who"] == "ana"
    assert [gate["check"] for gate in report["waiver"]["gates"]] == ["range"]
    status, _, message = cli("build", "clicks", "--interval", DAY)
    assert status == 1
    assert "is not published: quarantine_ratio" in message


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ((), 2, "expected --why and --until, or --dry-run"),
        (("--why", "a storm", "--until", "2099-01-01", "--who", ""), 2, "or leave --who out"),
        (("--why", "a storm", "--until", "2020-01-01"), 2, "an end of the waiver after now"),
        (("--why", "a storm", "--until", "soon"), 2, "expected a UTC time"),
        (DECISION, 2, "within a year"),
        (("--plan", "0123456789abcdef-g0001", *DECISION), 1, "is missing"),
    ],
)
def test_a_wrong_decision_writes_nothing(cli, refused, options, status, message):
    found = cli("waive", TARGET, *options)
    assert (found[0], message in " ".join(found[2].split())) == (status, True)
    assert written(refused) == {}


def test_a_published_interval_and_a_wrong_target_are_refused(cli, project, until):
    project.prebuilt()
    assert cli("waive", TARGET, *until)[0] == 1
    assert cli("waive", "clicks", *until)[0] == 2
    assert cli("waive", f"{TARGET}/g0001", *until)[0] == 2
    status, _, message = cli("waivers", "ls")
    assert (status, message) == (0, "no waiver was found\n")


def test_a_damaged_waiver_is_damage(cli, refused, until):
    assert cli("waive", TARGET, *until)[0] == 0
    (path,) = refused.folder.plans(DAY).glob("*.waiver-0001.json")
    path.write_bytes(path.read_bytes().replace(b"storm", b"state"))
    assert cli("waive", TARGET, *until)[0] == 3
    assert cli("build", "clicks", "--interval", DAY)[0] == 3
    assert refused.folder.generations(DAY) == []


def test_a_damaged_waiver_is_named_and_hides_no_other(cli, refused, until):
    for check, who in (("range", "ana"), ("quarantine_ratio", "ben")):
        assert cli("waive", TARGET, *until, "--check", check, "--who", who)[0] == 0
    (path,) = refused.folder.plans(DAY).glob("*.waiver-0001.json")
    path.write_bytes(path.read_bytes().replace(b"storm", b"state"))
    status, output, message = cli("waivers", "ls")
    account = pwd.getpwuid(os.getuid()).pw_name
    assert (status, f"ben ({account})" in output, path.name in message) == (3, True, True)
    damaged, holding = json.loads(cli("waivers", "ls", "--json")[1])
    assert "a waiver of the plan" in damaged["error"]
    assert holding["waiver"]["who"] == "ben"


def test_waivers_that_are_closed_to_the_account_are_named(cli, refused, until, monkeypatch):
    assert cli("waive", TARGET, *until)[0] == 0
    (path,) = refused.folder.plans(DAY).glob("*.waiver-0001.json")
    assert path.stat().st_mode & 0o007 == 0

    def closed(*_):
        raise AccessDeniedError(f"{path}: permission denied")

    monkeypatch.setattr("trainfeed.cli.upkeep.waiver_states", closed)
    status, _, message = cli("waivers", "ls", "clicks")
    assert (status, "permission denied" in message) == (1, True)
