"""A rank that is killed in mid-epoch as a pod goes on at its checkpoint, with the same curve."""

from __future__ import annotations

import pytest

from trainfeed.training.jobs import JobState

CODE = """
import os
import signal


def main(job):
    total, step = 0.0, 0
    mark = job.output.parent / "killed"
    with job.loader("train", batch_size=4) as batches:
        if (saved := job.restore()) is not None:
            total, step = float((saved.path / "total").read_text()), saved.step
        for epoch in range(batches.due.epoch, 3):
            for batch in batches:
                total = 0.9 * total + float(batch["value"].sum())
                step += 1
                job.log_metrics(step, total=total)
                if step % 5 == 0:
                    job.save(step, lambda folder: (folder / "total").write_text(repr(total)))
                if str(step) == os.environ["KILLED_AT"] and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
    return {"total": total, "steps": step}
"""


@pytest.mark.nightly
def test_a_rank_that_is_killed_as_a_pod_ends_with_the_curve_of_one_that_was_not(training):
    curves, results = [], []
    for step in ("never", "13"):
        own = training(code=CODE, ranks=1, retries=1, environment={"KILLED_AT": step})
        launched = own.launch()
        assert own.finished(launched).state is JobState.SUCCEEDED
        assert len(own.jobs()) == 1
        assert len(own.lab.pods(own.name)) == len(results) + 1
        lines = (launched.record.home / "metrics.jsonl").read_text().splitlines()
        curves.append([line for line in lines if not line.startswith('{"recomputed":')])
        results.append(launched.record.result())
    assert len(curves[0]) == results[0].metrics["steps"] == 24
    assert curves[1] == curves[0]
    assert results[1].metrics == results[0].metrics
    assert results[0].recomputed == {}
    # The checkpoint before was that of step 10.
    assert results[1].recomputed == {"steps": 3, "samples": 12}
