"""Worker processes that are started early, and stages that run in them."""

import pytest

from trainfeed.build import _engine, pipeline
from trainfeed.build.workers import start_workers
from trainfeed.errors import EngineError
from trainfeed.faults import VARIABLE

MANY = "seed: 7\nresources: {processes: 2, records_per_task: 9}"

pytestmark = pytest.mark.usefixtures("no_worker")


def workers():
    return {worker._process.pid for worker in _engine._idle}


def test_workers_started_early_are_those_that_do_the_work(project):
    start_workers(2)
    started = workers()
    assert len(started) == 2
    start_workers(2)
    project.edit("seed: 7", MANY)
    project.build()
    assert workers() == started


@pytest.mark.parametrize("stage", ["ingest", "convert"])
def test_a_stage_whose_worker_was_killed_says_so_and_goes_on_in_the_next_run(
    project, tmp_path, monkeypatch, stage
):
    plain = project.elsewhere("plain")
    plain.build()
    project.edit("seed: 7", MANY)
    point = {"ingest": "ingest.after_batch", "convert": "convert.after_block"}[stage]
    monkeypatch.setenv(VARIABLE, f"{point}:kill:{tmp_path}")
    with pytest.raises(EngineError, match=f"of stage {stage} of data set 'clicks' ended by signal"):
        project.build()
    assert (tmp_path / f"{point}.fired").exists()
    assert _engine._busy == set()
    project.build()
    assert project.version().manifest.content_digest == plain.version().manifest.content_digest


def test_an_error_of_a_stage_in_a_worker_is_raised_here(project, monkeypatch):
    project.edit("seed: 7", MANY)
    plan = pipeline.plan

    def without_source(*args, **kwargs):
        planned = plan(*args, **kwargs)
        for path in project.path.glob("recorded/**/*.arrow"):
            path.write_bytes(b"ARROW1 no more")
        return planned

    monkeypatch.setattr(pipeline, "plan", without_source)
    with pytest.raises(Exception, match="footer") as caught:
        project.build()
    assert type(caught.value).__module__ == "trainfeed.errors"
