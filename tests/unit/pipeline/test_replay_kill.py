"""Replays that are killed, run twice at once, or meet a build; all points: tests/e2e."""

import json
import signal

import pytest

from tests.unit.pipeline.replays import ended, fixed, replay, start
from tests.unit.pipeline.test_kill import Observer

COMMAND = ("quarantine", "replay", "clicks")


@pytest.mark.parametrize("point", ["plan.after_save", "publish.before_rename"])
def test_a_replay_that_was_killed_and_retried_is_that_of_one_that_was_not(project, point):
    undisturbed = fixed(project).elsewhere("undisturbed")
    undisturbed.build()
    before = project.version().manifest_sha256
    with Observer(project.folder.interval("2024-03-01")) as observer:
        status, _, said = replay(project, point)
        assert status == -signal.SIGKILL, said
        assert project.version().manifest_sha256 == before
        status, output, said = replay(project)
        assert status == 0, said
    assert (json.loads(output)["verdict"], json.loads(output)["source_reads"]) == ("built", 0)
    assert observer.violations == []
    assert observer.seen <= {before, project.version().manifest_sha256}
    assert project.version().manifest.ledger == undisturbed.version().manifest.ledger
    assert (
        project.version().manifest.content_digest == undisturbed.version().manifest.content_digest
    )
    assert not list(project.folder.staging.glob("*-g0002"))


def test_two_replays_at_once_end_with_one_generation(project):
    running = [start(fixed(project), *COMMAND), start(project, *COMMAND)]
    results = [ended(each) for each in running]
    assert [status for status, _, _ in results] == [0, 0], results
    assert project.folder.last_generation("2024-03-01") == 2
    project.version().verify()


def test_a_replay_beside_the_nightly_build_leaves_one_whole_generation(project):
    running = [start(fixed(project), *COMMAND), start(project, "build", "clicks")]
    (replayed, _, said), (_, _, refused) = (ended(each) for each in running)
    assert replayed == 0, said
    assert refused == "" or "ConflictError" in refused
    assert project.folder.last_generation("2024-03-01") == 2
    project.version().verify()
    status, output, _ = replay(project)
    assert (status, json.loads(output)["verdict"]) == (0, "identical")
