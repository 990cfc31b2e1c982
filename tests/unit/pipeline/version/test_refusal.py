"""A failed gate says why: reasons, examples with their place, all records, the remedy."""

import json
import pickle

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from tests.unit.pipeline.log_project import make_log_project
from trainfeed.errors import GateError
from trainfeed.pipeline.quarantine import quarantine_of_plan
from trainfeed.pipeline.reports import PlanRef

NOTHING = "quality: [{check: quarantine_ratio, max: 0}]"


def refused(project, quality=NOTHING):
    """Build with gates that do not hold; return the error."""
    project.edit("seed: 7", f"seed: 7\n{quality}")
    with pytest.raises(GateError) as caught:
        project.build()
    return caught.value


def plan_of(project):
    (plan_id,) = project.folder.plan_ids("2024-03-01")
    return PlanRef("clicks", "2024-03-01", plan_id)


def test_a_failed_gate_names_reasons_with_counts_and_two_examples_each(project):
    text = str(refused(project))
    first, *_ = text.splitlines()
    assert first == (
        "clicks/2024-03-01 is not published: quarantine_ratio is 0.0983607, allowed: max 0"
        " (18 of 183 records quarantined)"
    )
    assert "quarantined: 18 not_json" in text
    assert text.count("  not_json at kafka:clicks/0 offset ") == 2
    assert "not_json at kafka:clicks/0 offset 3: " in text
    assert "\n    record: not json\n" in text
    assert "filtered: " in text


def test_every_reason_has_its_own_examples(project):
    rows = [event(i, START_MS + i) for i in range(20)]
    rows[7] = {"value": b"not json", "timestamp": START_MS + 7}
    for number in (9, 11, 13):
        rows[number] = {"value": json.dumps({"n": number}).encode(), "timestamp": START_MS}
    project.record({0: [batch(rows)]})
    lines = str(refused(project)).splitlines()
    assert "quarantined: 3 no_value, 1 not_json" in lines
    shown = [line for line in lines if line.startswith("  ")]
    assert shown[:4] == [
        "  no_value at kafka:clicks/0 offset 9: expected a value",
        '    record: {"n": 9}',
        "  no_value at kafka:clicks/0 offset 11: expected a value",
        '    record: {"n": 11}',
    ]
    assert sum("  not_json at kafka:clicks/0 offset 7" in line for line in lines) == 1


def test_the_place_and_the_command_lead_to_the_records(project):
    text = str(refused(project))
    ref = plan_of(project)
    found = quarantine_of_plan(project.env, ref)
    assert f"the quarantined records are in {found.place}" in text
    assert f"trainfeed quarantine show clicks/2024-03-01 --plan {ref.plan_id}" in text
    assert found.reasons() == {"not_json": 18}
    assert len(list(found.places())) == 18


def test_landing_files_are_named_only_where_there_are_any(project, tmp_path):
    assert "landing files are kept, nothing was published" in str(refused(project))
    text = str(refused(make_log_project(tmp_path / "logs")))
    assert "landing files" not in text
    assert "\nnothing was published\nfix the source" in text
    assert "part-0.txt offset " in text


def test_nothing_asks_to_clear_a_task_on_the_command_line(project):
    text = str(refused(project))
    assert "clear " not in text
    assert "build the interval again (in Airflow: trigger it again)" in text


def test_a_gate_on_a_field_names_the_records_that_break_it(project):
    text = str(refused(project, "quality: [{check: range, field: value, min: 0, max: 50}]"))
    assert "range of value is [0, 61], allowed: min 0, max 50 (least and largest of " in text
    assert text.count("  range at kafka:clicks/") == 2
    assert ": value is 5" in text or ": value is 6" in text


def test_a_gate_on_nulls_names_records_that_lack_the_field(project):
    project.edit("label: {dtype: int64}", "label: {dtype: int64, optional: true}")
    project.edit('"label": n}', '"label": None if n else n}', "preprocess.py")
    text = str(refused(project, "quality: [{check: null_ratio, field: label, max: 0}]"))
    assert "allowed: max 0 (" in text
    assert ": label is absent" in text


def test_every_gate_that_does_not_hold_is_named(project):
    gates = "quality: [{check: count, min: 1000}, {check: quarantine_ratio, max: 0}]"
    text = str(refused(project, gates))
    assert "is 147, allowed: min 1000 (samples of 183 records read; 18 quarantined, 24 " in text
    assert "and quarantine_ratio is" in text


def test_the_message_stays_short_and_shows_no_secret(project):
    code = """
from trainfeed.preprocessing import Reject


def clicks(record, lookups):
    raise Reject(f"reason{record.offset}", "token=hunter2 " + "long " * 1000)
"""
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    value = b'{"password": "hunter2", "text": "' + b"x" * 10_000
    rows = [{"value": value, "timestamp": START_MS + i} for i in range(100)]
    project.record({0: [batch(rows)]})
    error = refused(project)
    assert "hunter2" not in str(error) + json.dumps(error.report)
    assert "95 for 95 further reasons" in str(error)
    assert len(str(error)) < 4_000
    assert len(json.dumps(error.report)) < 8_000


def test_the_report_of_a_failed_gate_is_small_json_and_survives_pickling(project):
    error = pickle.loads(pickle.dumps(refused(project)))
    report = json.loads(json.dumps(error.report))
    assert report["counts"] == {"read": 183, "samples": 147, "quarantined": 18, "filtered": 24}
    (reason,) = report["reasons"]
    assert (reason["reason"], reason["records"], len(reason["examples"])) == ("not_json", 18, 2)
    assert report["gates"][0]["because"] == "18 of 183 records quarantined"
    assert report["command"].endswith(plan_of(project).plan_id)


def test_damaged_quarantine_does_not_hide_that_a_gate_failed(project, monkeypatch):
    def damaged(*_):
        raise GateError("damaged")

    monkeypatch.setattr("trainfeed.pipeline.check.turned_down", damaged)
    assert "quarantined: 18 not_json" in str(refused(project))


def test_after_the_repair_the_interval_is_built(project):
    error = refused(project)
    project.edit(NOTHING, "quality: [{check: quarantine_ratio, max: 0.5}]")
    assert project.build()["verdict"] == "built"
    assert project.version().manifest.quarantine == {"records": 18, "reasons": {"not_json": 18}}
    assert "report" not in project.version().manifest.to_bytes().decode()
    assert error.report is not None
