"""``bring-forward``: killed and called again, and twice at once.

Two days, and every point at which a build can die, are in tests/e2e/test_bring_forward_kills.py.
"""

from __future__ import annotations

from tests.unit.look.outdated.forward import (
    DAYS,
    brought_forward,
    command,
    make_outdated,
    require_brought_forward,
)
from tests.unit.processes import LIMIT_S
from trainfeed.look.outdated import find_outdated

DAY = DAYS[:1]


def test_a_killed_build_is_done_by_the_next_call(project):
    make_outdated(project, DAY)
    status, messages = brought_forward(project, fault="publish.before_rename")
    assert (status, "1 of 1 intervals are not brought forward" in messages) == (1, True)
    assert find_outdated(project.spec, project.env).counts == {"outdated": 1}
    assert brought_forward(project)[0] == 0
    require_brought_forward(project, DAY)


def test_two_at_once_meet_at_the_same_generation(project):
    make_outdated(project, DAY)
    both = [command(project, "bring-forward", "clicks/2024-03") for _ in range(2)]
    ended = [(process.communicate(timeout=LIMIT_S), process.returncode) for process in both]
    assert [status for _, status in ended] == [0, 0], ended
    require_brought_forward(project, DAY)
