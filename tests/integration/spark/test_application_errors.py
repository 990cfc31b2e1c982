"""What fails in an application has the error, the outcome and the traces of the local engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainfeed.errors import (
    CodeChangedError,
    ConfigError,
    EngineError,
    MemoryLimitError,
    PreprocessError,
    TrainFeedError,
)
from trainfeed.pipeline import check as checking
from trainfeed.pipeline.spark import application

pytestmark = pytest.mark.nightly

LOOPS = "\n    while record.offset == 20:\n        pass\n"
LEAVES = "\n    if record.offset == 20:\n        import os\n        os._exit(3)\n"
RAISES = "\n    if record.offset == 20:\n        raise ValueError('broken')\n"
LEAKS = "\n    kept = [bytearray(64 << 20) for _ in range(20)] if record.offset == 20 else None\n"
BEGIN = "    row = record.json()\n"


def nothing_visible(case):
    folder = Path(case.env.root) / "clicks"
    return not list((folder / "versions").glob("*/g*")) if folder.exists() else True


@pytest.mark.parametrize(
    ("fault", "limits", "ends"),
    [
        (RAISES, "", (PreprocessError, "broken")),
        (LEAVES, "", (PreprocessError, "ended its process with status 3")),
        (LOOPS, "time_limit: 3s", (PreprocessError, "took longer")),
        (LEAKS, "worker_memory_bytes: 512MiB", (MemoryLimitError, "bytes of memory")),
    ],
    ids=["raises", "leaves", "loops", "leaks"],
)
def test_a_function_keeps_its_limits(project, clicks, tmp_path, fault, limits, ends):
    project.edit(BEGIN, fault.lstrip("\n") + BEGIN, "preprocess.py")
    path = project.env.datasets / "clicks" / "dataset.yaml"
    path.write_text(path.read_text() + f"resources: {{{limits}}}\n")
    there = clicks.read_again().at(tmp_path / "there", "spark")
    with pytest.raises(ends[0], match=ends[1]) as caught:
        there.build()
    assert "offset 20" in str(caught.value)
    assert nothing_visible(there)


def test_places_that_executors_do_not_see_are_named(clicks, tmp_path, monkeypatch):
    there = clicks.at(tmp_path / "there", "spark")
    job_of = application._job

    def elsewhere(stage, shipment):
        return replace(job_of(stage, shipment), landing=str(tmp_path / "not-mounted"))

    monkeypatch.setattr(application, "_job", elsewhere)
    with pytest.raises(ConfigError, match=r"to see the landing area .*not-mounted"):
        there.build()
    assert nothing_visible(there)


def test_another_package_than_the_shipped_one_is_refused(clicks, tmp_path, monkeypatch):
    job_of = application._job
    monkeypatch.setattr(application, "_job", lambda *each: replace(job_of(*each), package="0" * 64))
    with pytest.raises(CodeChangedError, match="expected the package trainfeed with digest 0000"):
        clicks.at(tmp_path / "there", "spark").build()


def test_a_driver_that_is_killed_leaves_nothing_and_the_next_attempt_builds(
    clicks, tmp_path, monkeypatch
):
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    there = clicks.at(tmp_path / "there", "spark")
    monkeypatch.setenv("TRAINFEED_FAULTS", "spark.before_result:kill")
    with pytest.raises(EngineError, match="without a result"):
        there.build()
    assert nothing_visible(there)
    monkeypatch.delenv("TRAINFEED_FAULTS")
    there.build()
    assert there.digest == here.digest


@pytest.mark.parametrize(
    "point",
    ["spark.after_function", "spark.before_rows", "spark.after_group", "convert.before_sync"],
)
def test_executors_that_are_killed_leave_no_trace(clicks, tmp_path, monkeypatch, point):
    """The kill hits a Python worker at its first pass; Spark gives the task to another."""
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    there = clicks.in_groups(3).at(tmp_path / "there", "spark", "local[2,3]")
    monkeypatch.setenv("TRAINFEED_FAULTS", f"{point}:kill:{tmp_path}")
    there.build()
    assert (tmp_path / f"{point}.fired").exists()
    assert there.digest == here.digest


def test_a_shard_that_is_lost_before_check_is_noticed(clicks, tmp_path, monkeypatch):
    there = clicks.at(tmp_path / "there", "spark")
    check = checking.check

    def without_a_shard(build):
        (first, *_) = sorted((tmp_path / "there" / "root").rglob("clicks-train-*"))
        first.unlink()
        return check(build)

    monkeypatch.setattr(checking, "check", without_a_shard)
    with pytest.raises(TrainFeedError, match="clicks-train-"):
        there.build()
    assert nothing_visible(there)
