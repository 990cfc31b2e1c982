"""``bring-forward``: killed and called again, twice at once, and against another publication.

Every point at which a build can die is killed at in tests/e2e/test_bring_forward_kills.py.
"""

from __future__ import annotations

from tests.unit.outdated.forward import (
    brought_forward,
    command,
    make_outdated,
    require_brought_forward,
)
from tests.unit.processes import LIMIT_S
from trainfeed.outdated import find_outdated


def test_a_killed_build_is_done_by_the_next_call(project):
    make_outdated(project)
    status, messages = brought_forward(project, fault="publish.before_rename")
    assert (status, "1 of 2 intervals are not brought forward" in messages) == (1, True)
    assert find_outdated(project.spec, project.env).counts == {"outdated": 1, "current": 1}
    assert brought_forward(project)[0] == 0
    require_brought_forward(project)


def test_two_at_once_meet_at_the_same_generations(project):
    make_outdated(project)
    both = [command(project, "bring-forward", "clicks/2024-03") for _ in range(2)]
    ended = [(process.communicate(timeout=LIMIT_S), process.returncode) for process in both]
    assert [status for _, status in ended] == [0, 0], ended
    require_brought_forward(project)
