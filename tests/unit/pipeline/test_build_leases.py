"""A build says in the publication root who is at work; this is advice, and never stops a build."""

import os
import signal
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.pipeline.test_kill import warm_command as command
from trainfeed.core import faults
from trainfeed.errors import StorageError
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts
from trainfeed.versions.lease import building, hold_build, leases

DAY = "2024-03-01"


@pytest.fixture
def at_verify(monkeypatch):
    """Call functions when a build has staged its version and not yet published it."""
    calls = []

    def point(name):
        if name == "publish.after_verify":
            for call in calls:
                call()

    monkeypatch.setattr(faults, "point", point)
    return calls.append


def test_a_build_holds_a_lease_until_it_has_published(project, at_verify):
    seen = []
    at_verify(lambda: seen.extend(building(project.folder, DAY, datetime.now(UTC))))
    project.build()
    (found,) = seen
    assert found.lease.versions == ((DAY, 1),)
    assert found.lease.pid == os.getpid()
    assert found.lease.what.startswith("build of plan ")
    assert leases(project.folder) == []


def test_status_sees_a_build_with_another_work_folder_and_knows_its_own(project, at_verify):
    lives = []

    def look():
        (plan,) = project.folder.plan_ids(DAY)
        for work in (project.env.work, str(project.path / "other work")):
            attempts = Attempts(Location.parse(work), datetime.now(UTC))
            lives.append(attempts.of(project.folder, [plan]).life)

    at_verify(look)
    project.build()
    assert lives == ["at work", "elsewhere"]


def test_status_knows_a_killed_build_of_this_machine_although_its_lease_holds(project):
    assert command(project, "publish.after_verify").returncode == -signal.SIGKILL
    now = datetime.now(UTC)
    assert len(building(project.folder, DAY, now)) == 1
    attempts = Attempts(Location.parse(project.env.work), now)
    assert attempts.of(project.folder, project.folder.plan_ids(DAY)).life == "killed"


def test_another_plan_for_the_interval_is_told_in_the_log(project, caplog):
    with hold_build(project.folder, DAY, 1, "build of plan 0123456789abcdef-g0001"):
        project.build()
    assert "2024-03-01 is being built by another plan, too: build of plan 0123" in caplog.text


def test_tasks_of_one_plan_are_no_news(project, caplog, at_verify):
    other = replace(project, env=replace(project.env, work=str(project.path / "other work")))
    built = []

    def build_beside():
        if not built:
            built.append(True)
            other.build()

    at_verify(build_beside)
    assert project.build()["verdict"] == "published"
    assert "another plan" not in caplog.text


def test_a_build_whose_lease_cannot_be_written_goes_on(project, monkeypatch, caplog):
    def fail(*_, **__):
        raise StorageError("no leases today")

    monkeypatch.setattr("trainfeed.pipeline.build_attempts.hold_build", fail)
    assert project.build()["verdict"] == "built"
    assert "others do not see that this process builds 2024-03-01: no leases today" in caplog.text
