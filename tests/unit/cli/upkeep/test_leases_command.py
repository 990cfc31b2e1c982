"""``trainfeed leases``: who holds which versions, and what cannot be read."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from trainfeed.versions.lease import hold_build, hold_versions

DAY = "2024-03-01"


@pytest.fixture
def built(cli, project):
    assert cli("build", "clicks", "--interval", DAY)[0] == 0
    return project


def test_without_a_lease_the_command_says_so(cli, built):
    status, output, message = cli("leases", "clicks")
    assert (status, output) == (0, "")
    assert "no lease was found" in message
    assert json.loads(cli("leases", "--json")[1]) == []


def test_leases_are_listed_with_versions_holder_and_end(cli, built):
    versions = [(DAY, 1), ("2024-03-02", 1)]
    with (
        hold_versions(built.folder, versions, "an evaluation"),
        hold_build(built.folder, DAY, 2, "a rebuild"),
    ):
        status, output, _ = cli("leases")
        assert status == 0
        assert "2024-03-01/g0001 … 2024-03-02/g0001 (2)" in output
        assert "2024-03-01/g0002" in output
        found = json.loads(cli("leases", "clicks", "--json")[1])
    assert [each["state"] for each in found] == ["build", "read"]
    assert found[1]["versions"] == {DAY: [1], "2024-03-02": [1]}
    assert found[1]["pid"] == os.getpid()


@pytest.mark.parametrize(
    ("age", "state"), [(timedelta(hours=2), "ended"), (timedelta(days=-1), "clock ahead")]
)
def test_ended_leases_and_wrong_clocks_are_shown(cli, built, age, state):
    clock = datetime.now(UTC) - age
    held = hold_versions(built.folder, [(DAY, 1)], "a killed reader", clock=lambda: clock)
    (found,) = json.loads(cli("leases", "--json")[1])
    assert found["state"] == state
    held.release()


def test_a_damaged_lease_is_status_3_and_hides_no_other(cli, built):
    with (
        hold_versions(built.folder, [(DAY, 1)], "a reader"),
        hold_versions(built.folder, [(DAY, 1)], "another") as damaged,
    ):
        damaged.path.write_bytes(b"{}")
        status, output, message = cli("leases", "clicks")
    assert status == 3
    assert "a reader" in output
    assert "every version is kept until its time has passed" in message


def test_an_unknown_data_set_is_status_1(cli, built):
    status, _, message = cli("leases", "clickz")
    assert status == 1
    assert "clicks" in message
