"""The log of metrics: whole lines, one per step, and a count of what was computed again."""

import json
import logging

import numpy as np
import pytest

from tests.unit.training.points import job_in, writer
from trainfeed.errors import ConfigError
from trainfeed.training import metrics as _metrics_log
from trainfeed.training.metrics import Recomputed


def lines(home):
    return [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]


def run(home, first, last, *, save_at=()):
    """Take steps of 5 samples, as a process of the job does."""
    job = job_in(home)
    loader = job.loader("train", batch_size=5)
    saved = job.restore()
    assert (saved.step if saved else 0) == first
    step = first
    while step < last:
        for batch in loader:
            step += 1
            job.log_metrics(step, loss=float(batch["x"].sum()))
            if step in save_at:
                job.save(step, writer(step))
            if step == last:
                break
    return job


def test_a_line_has_the_step_the_samples_and_the_values(tmp_path):
    run(tmp_path, 0, 12)
    found = lines(tmp_path)
    assert [line["step"] for line in found] == list(range(1, 13))
    assert [line["samples"] for line in found] == list(range(5, 65, 5))


def test_after_a_kill_the_curve_is_that_of_an_undisturbed_run_and_the_rest_is_counted(tmp_path):
    run(tmp_path / "one", 0, 23)
    run(tmp_path / "two", 0, 14, save_at=(7,))
    assert run(tmp_path / "two", 7, 19, save_at=(17,)).recomputed == Recomputed(7, 35)
    job = run(tmp_path / "two", 17, 23)
    assert job.recomputed == Recomputed(9, 45)
    found = lines(tmp_path / "two")
    assert [line for line in found if "step" in line] == lines(tmp_path / "one")
    assert found[-7]["recomputed"] == {"steps": 9, "samples": 45}


def test_without_a_checkpoint_all_steps_are_computed_again_and_counted(tmp_path):
    run(tmp_path, 0, 4)
    job = run(tmp_path, 0, 6)
    assert job.recomputed == Recomputed(4, 20)
    assert [line["step"] for line in lines(tmp_path) if "step" in line] == [1, 2, 3, 4, 5, 6]


def test_a_count_survives_a_checkpoint_from_before_it(tmp_path):
    run(tmp_path, 0, 8, save_at=(2,))
    run(tmp_path, 2, 9)
    # Nothing was saved meanwhile: the count lies behind the checkpoint now.
    assert run(tmp_path, 2, 10).recomputed == Recomputed(6 + 7, 30 + 35)


def test_half_a_line_is_dropped(tmp_path):
    run(tmp_path, 0, 3, save_at=(3,))
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step":4,"lo')
    run(tmp_path, 3, 4)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4]


def test_lines_that_a_machine_has_lost_are_told(tmp_path, caplog):
    run(tmp_path, 0, 3, save_at=(3,))
    data = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(data[:-5])
    run(tmp_path, 3, 4)
    assert "lines of it are lost; the training goes on" in caplog.text
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 4]


def test_a_training_that_never_restores_begins_its_curve_again(tmp_path):
    for _ in range(2):
        job_in(tmp_path).log_metrics(1, loss=0.5)
    assert lines(tmp_path)[-1] == {"step": 1, "samples": 0, "loss": 0.5}
    assert len([line for line in lines(tmp_path) if "step" in line]) == 1


def test_values_of_any_numeric_type_and_losses_that_are_none(tmp_path):
    job = job_in(tmp_path)
    job.log_metrics(1, a=np.float32(0.5), b=np.int64(3), c=float("nan"), d=float("-inf"), e=2)
    assert lines(tmp_path) == [
        {"step": 1, "samples": 0, "a": 0.5, "b": 3.0, "c": "nan", "d": "-inf", "e": 2}
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"a": "0.5"},
        {"a": None},
        {"a": True},
        {"a": [1, 2]},
        {"samples": 1},
        {"a b": 1},
        {"": 1},
        {"x" * 129: 1},
        {f"m{i}": 1 for i in range(300)},
    ],
)
def test_what_is_no_metric_is_refused_and_nothing_is_written(tmp_path, values):
    job = job_in(tmp_path)
    with pytest.raises(ConfigError, match="expected"):
        job.log_metrics(1, **values)
    assert lines(tmp_path) == []


def test_a_full_log_says_so_once_and_the_training_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_metrics_log, "MAX_BYTES", 100)
    job = job_in(tmp_path)
    with caplog.at_level(logging.WARNING):
        for step in range(20):
            job.log_metrics(step, loss=0.25)
        job.close()
    assert (tmp_path / "metrics.jsonl").stat().st_size <= 100
    assert caplog.text.count("is full") == 1
    assert "18 lines were dropped" in caplog.text


def test_other_ranks_write_no_metrics_and_no_progress(tmp_path):
    job = job_in(tmp_path, 1, ranks=2)
    job.restore()
    job.log_metrics(1, loss=0.5)
    job.progress(1, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["output"]


def test_progress_is_replaced_and_its_end_is_always_written(tmp_path):
    job = job_in(tmp_path)
    for done in range(101):
        job.progress(done, 100)
    assert json.loads((tmp_path / "progress.json").read_text()) == {"done": 100, "total": 100}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["output", "progress.json"]
    with pytest.raises(ConfigError, match="what is done of a progress"):
        job.progress(3, 2)
