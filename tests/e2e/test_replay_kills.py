"""Replays of quarantined records: killed at every step, two at once, beside publications."""

import json
import signal

import pytest

from tests.unit.pipeline.conftest import make_project
from tests.unit.pipeline.replays import REPLAY_POINTS, ended, fixed, replay, start
from tests.unit.pipeline.test_kill import Observer

pytestmark = pytest.mark.nightly

COMMAND = ("quarantine", "replay", "clicks")
BUILD = ("build", "clicks")


@pytest.fixture
def project(tmp_path):
    return fixed(make_project(tmp_path))


@pytest.fixture
def expected(project):
    """The manifest of the same replay, undisturbed."""
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    return undisturbed.version().manifest


@pytest.mark.parametrize("point", REPLAY_POINTS)
def test_after_a_kill_at_any_step_the_retry_completes_with_an_equal_ledger(
    project, expected, point
):
    before = project.version().manifest_sha256
    with Observer(project.folder.interval("2024-03-01")) as observer:
        status, _, said = replay(project, point)
        assert status == -signal.SIGKILL, said
        status, _, said = replay(project)
        assert status == 0, said
    assert observer.violations == []
    assert observer.seen <= {before, project.version().manifest_sha256}
    assert project.version().manifest.ledger == expected.ledger
    assert project.version().manifest.content_digest == expected.content_digest
    assert project.folder.last_generation("2024-03-01") == 2
    status, output, _ = replay(project)
    assert (status, json.loads(output)["verdict"]) == (0, "identical")


@pytest.mark.parametrize("point", ["convert.after_shard", "check.before_rename"])
@pytest.mark.parametrize("times", range(3))
def test_one_of_two_replays_is_killed_and_the_other_completes(project, expected, point, times):
    running = [start(project, *COMMAND, fault=point), start(project, *COMMAND)]
    (killed, _, _), (status, _, said) = (ended(each) for each in running)
    assert killed in {-signal.SIGKILL, 0}
    assert status == 0, said
    assert project.version().manifest.ledger == expected.ledger
    assert project.folder.last_generation("2024-03-01") == 2


@pytest.mark.parametrize("rebuild", [(), ("--rebuild", "the function was fixed")])
@pytest.mark.parametrize("times", range(5))
def test_a_replay_beside_a_build_loses_and_doubles_nothing(project, expected, rebuild, times):
    with Observer(project.folder.interval("2024-03-01")) as observer:
        running = [start(project, *COMMAND), start(project, *BUILD, *rebuild)]
        results = [ended(each) for each in running]
    assert observer.violations == []
    assert 0 in {status for status, _, _ in results}, results
    assert project.version().manifest.ledger == expected.ledger
    status, output, said = replay(project)
    assert (status, json.loads(output)["verdict"]) == (0, "identical"), said
    project.version().verify()
