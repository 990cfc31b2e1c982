"""The note of a run is its interval; a note that a user wrote stays."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk import PartitionedAssetTimetable

from dags._defaults import dataset_asset
from operators.timetable import IntervalTimetable
from plugins._run_notes import on_dag_run_running
from trainfeed.core.intervals import Schedule

DAY = (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))
TODAY = (datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC))
BUILDS = IntervalTimetable(
    Schedule("@daily", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))
)
TRAINS = PartitionedAssetTimetable(assets=dataset_asset("clicks"))


def note_of(dag_id="build.clicks", timetable=BUILDS, interval=(None, None), **known):
    run = SimpleNamespace(
        dag_id=dag_id,
        dag=SimpleNamespace(timetable=timetable),
        data_interval_start=interval[0],
        data_interval_end=interval[1],
        **{"note": None, "conf": None, "partition_key": None, **known},
    )
    on_dag_run_running(run, "started")
    return run.note


def test_a_run_of_the_schedule_or_of_a_backfill_has_its_interval():
    assert note_of(interval=DAY) == "2026-01-02"


@pytest.mark.parametrize("interval", [(None, None), DAY, TODAY])
@pytest.mark.parametrize("asked", ["2026-01-03", "2026-01-03T00:00:00Z"])
def test_a_triggered_run_has_the_interval_of_its_window(interval, asked):
    assert note_of(interval=interval, conf={"window_start": asked}) == "2026-01-03"


@pytest.mark.parametrize(
    "known",
    [{}, {"interval": TODAY}, {"conf": {"window_start": "never"}}, {"conf": {"window_start": 7}}],
)
def test_a_run_that_means_no_interval_has_no_note(known):
    assert note_of(**known) is None


def test_a_training_run_has_its_partition_or_its_window():
    train = {"dag_id": "train.clicks", "timetable": TRAINS}
    assert note_of(**train, partition_key="2026-01-02") == "2026-01-02"
    assert note_of(**train, conf={"window_start": "2026-01-03"}) == "2026-01-03"
    assert note_of(**train) is None


@pytest.mark.parametrize("note", ["for the evaluation", ""])
def test_a_note_that_is_there_is_kept(note):
    assert note_of(interval=DAY, note=note) == note


def test_runs_of_other_dags_are_left_alone():
    assert note_of(dag_id="convert", timetable=None, conf={"window_start": "2026-01-02"}) is None


@pytest.mark.parametrize(
    ("dag_id", "conf", "note"),
    [
        ("withdraw", {"dataset": "flights", "interval": "2013-01-02"}, "flights/2013-01-02"),
        (
            "repair",
            {"dataset": "flights", "interval": "2013-01-02", "generation": "g0001", "why": None},
            "flights/2013-01-02/g0001",
        ),
        ("retire", {"dataset": "flights", "range": "2013-01/2013-02"}, "flights/2013-01/2013-02"),
        ("tag", {"dataset": "flights", "tag": "prod", "range": "2013-01"}, "flights@prod"),
        ("waive.clicks", {"interval": "2026-01-02", "why": "known"}, "clicks/2026-01-02"),
        ("models", {"model": "delay", "version": "v0003"}, "delay/v0003"),
        ("retention", {"dataset": None}, None),
        ("withdraw", {"dataset": 7, "interval": ["x"]}, None),
        ("withdraw", {"dataset": "a\x1b[2J"}, "a\\x1b[2J"),
        ("somebody.else", {"dataset": "flights"}, None),
    ],
)
def test_a_run_of_a_form_has_what_it_is_about(dag_id, conf, note):
    assert note_of(dag_id=dag_id, timetable=None, conf=conf) == note
