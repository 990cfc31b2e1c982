"""SIGKILL at every step of a waiver, and of check and publish with one; then equal bytes."""

import os
import signal
from contextlib import suppress

import pytest

from tests.unit.forks import in_a_fork
from tests.unit.pipeline.test_kill import WAIVER_POINTS
from tests.unit.pipeline.waivers.conftest import DAY, Refused
from trainfeed.core import faults
from trainfeed.errors import ConflictError, GateError, NotFoundError
from trainfeed.pipeline.check import check
from trainfeed.pipeline.publish import publish

STAGE_POINTS = [
    "check.start",
    "check.before_rename",
    "publish.start",
    "publish.after_manifest",
    "publish.after_verify",
    "publish.before_rename",
    "publish.after_rename",
]


def run(refused):
    """Check, waive what failed unless it is waived, check again, publish."""
    with suppress(GateError):
        check(refused.stages)
    with suppress(ConflictError, NotFoundError):
        refused.waive()
    check(refused.stages)
    publish(refused.stages)


def killed_at(point, act):
    """Do something in a process that is killed at a point; return how it ended."""

    def armed():
        os.environ[faults.VARIABLE] = f"{point}:kill"
        faults._plan.cache_clear()
        act()

    return in_a_fork(armed)


@pytest.mark.parametrize("point", [*WAIVER_POINTS, *STAGE_POINTS])
def test_after_a_kill_at_any_step_the_retry_publishes_the_same_bytes(refused, tmp_path, point):
    twin = Refused.of(refused, tmp_path / "twin")
    assert killed_at(point, lambda: run(refused)) == -signal.SIGKILL
    published = [1] if point == "publish.after_rename" else []
    assert refused.folder.generations(DAY) == published
    run(refused)
    refused.version().verify()
    assert not refused.folder.staged(refused.plan_id).exists()
    name = f"{refused.plan_id}.waiver-0001.json"
    waiver = (refused.folder.plans(DAY) / name).read_bytes()
    assert not list(refused.folder.plans(DAY).glob("*.waiver-0002.json"))
    (twin.folder.plans(DAY) / name).write_bytes(waiver)
    run(twin)
    assert refused.manifest() == twin.manifest()
