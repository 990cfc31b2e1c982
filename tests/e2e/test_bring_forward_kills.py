"""SIGKILL at every point of a build that ``bring-forward`` has started, and of the command itself.

After the next call, both days are the versions that an undisturbed call makes, once each.
"""

from __future__ import annotations

import signal

import pytest

from tests.unit.look.outdated.forward import (
    DAYS,
    POINTS,
    brought_forward,
    command,
    make_outdated,
    require_brought_forward,
)
from tests.unit.pipeline.conftest import project
from tests.unit.pipeline.test_kill import Observer
from tests.unit.processes import LIMIT_S

__all__ = ["project"]

pytestmark = pytest.mark.nightly

# Rebuilds adopt the landing files, so nothing lands.
LANDING = {"ingest.after_batch", "ingest.before_rename", "ingest.after_rename"}


@pytest.mark.parametrize("point", [point for point in POINTS if point not in LANDING])
def test_a_build_that_was_killed_is_done_by_the_next_call(project, point):
    make_outdated(project)
    with Observer(project.folder.interval(DAYS[0])) as observer:
        status, messages = brought_forward(project, fault=point)
        assert status == 1, messages
        assert (project.path / "faults" / f"{point}.fired").exists()
        status, messages = brought_forward(project)
        assert status == 0, messages
    assert observer.violations == []
    require_brought_forward(project)


@pytest.mark.parametrize("point", ["preprocess.start", "publish.before_rename"])
def test_the_command_itself_may_be_killed(project, point):
    make_outdated(project)
    process = command(project, "bring-forward", "clicks/2024-03", fault=point)
    fired = project.path / "faults" / f"{point}.fired"
    while not fired.exists() and process.poll() is None:
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=LIMIT_S)
    status, messages = brought_forward(project)
    assert status == 0, messages
    require_brought_forward(project)


def test_two_at_once_meet_at_the_same_generations(project):
    make_outdated(project)
    both = [command(project, "bring-forward", "clicks/2024-03", "--jobs=2") for _ in range(2)]
    ended = [(process.communicate(timeout=LIMIT_S), process.returncode) for process in both]
    assert [status for _, status in ended] == [0, 0], ended
    require_brought_forward(project)


def test_a_publication_of_the_same_interval_meets_it(project):
    make_outdated(project)
    build = ("build", "clicks/2024-03-01/2024-03-02", "--outdated=rebuild", "--jobs=2")
    both = [command(project, "bring-forward", "clicks/2024-03"), command(project, *build)]
    ended = [(process.communicate(timeout=LIMIT_S), process.returncode) for process in both]
    assert [status for _, status in ended] == [0, 0], ended
    require_brought_forward(project)


def test_a_rebuild_for_another_reason_makes_the_same_generation(project):
    make_outdated(project)
    build = ("build", "clicks/2024-03-01", "--rebuild", "label was off by one")
    both = [command(project, *build), command(project, "bring-forward", "clicks/2024-03")]
    ended = [(process.communicate(timeout=LIMIT_S), process.returncode) for process in both]
    # The forced rebuild may replace the plan of a run that is at work, which then fails, and may
    # come second, which makes a third generation: it was asked for without a condition.
    assert brought_forward(project)[0] == 0, ended
    assert list(project.version().problems()) == []
    assert project.folder.last_generation(DAYS[1]) == 2
    assert project.folder.last_generation(DAYS[0]) in {2, 3}
