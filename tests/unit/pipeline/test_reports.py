"""The JSON of reports: schedulers keep it, pages and later tasks of a run read it."""

import json

import pytest

from trainfeed.errors import FormatError
from trainfeed.pipeline import PlanReport, SkipReport, plan_report_from_json
from trainfeed.pipeline.reports import MAPPED_STAGES, CheckReport, IngestReport, PublishedBefore

# As the task plan of an earlier deployment has left them.
PLANNED = {
    "dataset": "clicks",
    "interval": "2024-03-01",
    "plan_id": "0123456789abcdef-g0002",
    "generation": "g0002",
    "verdict": "build",
    "ingest": [{"unit": 0}, {"unit": 1}],
    "preprocess": [{"unit": 0}],
    "convert": [{"unit": 0}, {"unit": 1}, {"unit": 2}],
    "empty_because": {"kafka:clicks/0": "log_end"},
    "seconds": 0.25,
    "note": "g0001 stays",
}
SKIPPED = {
    "dataset": "clicks",
    "interval": "2024-03-01",
    "verdict": "skipped",
    "ingest": [],
    "preprocess": [],
    "convert": [],
    "seconds": 1.5,
    "note": "the interval is left out",
}
OPTIONAL = ("empty_because", "note")


def text(report):
    return json.dumps(report.to_json())


def without(value, *names):
    return {name: each for name, each in value.items() if name not in names}


@pytest.mark.parametrize("value", [PLANNED, without(PLANNED, *OPTIONAL)], ids=["all", "least"])
def test_what_plan_leaves_is_read_and_written_key_by_key(value):
    report = plan_report_from_json(value)
    assert isinstance(report, PlanReport)
    assert report.tasks == {"ingest": 2, "preprocess": 1, "convert": 3}
    assert text(report) == json.dumps(value)


def test_an_interval_that_is_left_out_has_the_keys_of_a_plan_and_no_task():
    report = plan_report_from_json(SKIPPED)
    assert isinstance(report, SkipReport)
    assert text(report) == json.dumps(SKIPPED)


@pytest.mark.parametrize("name", [name for name in PLANNED if name not in OPTIONAL])
@pytest.mark.parametrize("spoiled", [None, object], ids=["missing", "of another type"])
def test_what_is_not_what_plan_leaves_is_refused(name, spoiled):
    value = without(PLANNED, name) if spoiled is None else {**PLANNED, name: spoiled()}
    with pytest.raises(FormatError, match=r"expected the result of the task plan.*from plan on"):
        plan_report_from_json(value)


def test_a_dry_run_is_no_plan():
    dry = {**without(PLANNED, "plan_id", "ingest"), "dry_run": True}
    with pytest.raises(FormatError, match="expected the result of the task plan"):
        plan_report_from_json(dry)


CHECKED = (
    "stage source_reads seconds verdict samples quarantined filtered warnings waived proof report"
)


@pytest.mark.parametrize(
    ("report", "keys"),
    [
        (
            IngestReport(verdict="adopted", unit=3, records=7, bytes=80, seconds=0.5),
            "stage source_reads seconds verdict unit records bytes",
        ),
        (
            CheckReport(
                samples=9,
                quarantined=1,
                filtered=2,
                warnings=[],
                waived=[],
                proof="spill",
                report={},
            ),
            CHECKED,
        ),
        (
            PublishedBefore(stage="convert", version="clicks/2024-03-01/g0001"),
            "stage source_reads seconds verdict version",
        ),
    ],
    ids=["ingest", "check", "published before"],
)
def test_the_report_of_a_task_has_its_fields_in_their_order(report, keys):
    assert list(report.to_json()) == keys.split()
    json.dumps(report.to_json())


def test_every_stage_says_the_same_of_a_build_as_its_report(project):
    report = project.build()
    keys = "stage source_reads seconds verdict version dataset interval generation fingerprint"
    more = "content_digest manifest_sha256 samples quarantined filtered shards bytes"
    assert list(report) == f"{keys} {more}".split()
    assert report["stage"] == "publish"
    assert list(report["seconds"]) == ["plan", *MAPPED_STAGES, "check", "publish"]
