"""Previews of quarantined records: today's function, on just those records, and nothing written."""

import shutil

import pyarrow.compute as pc
import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from tests.unit.pipeline.log_project import make_log_project
from trainfeed.errors import FormatError, GateError, PreprocessError
from trainfeed.files.stores import Location
from trainfeed.pipeline.landed_ranges import opened_landing, write_landing
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.quarantine import QuarantinedPlace, unpublished_plans
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.review import Pieces, preview_quarantine

LARGE = b"not json" + b"x" * 1_000_000
CODE = """
from trainfeed.preprocessing import Filtered, Reject


def clicks(record, lookups):
    if record.value == b"":
        return Filtered("nothing")
    if record.value == b"\\xff\\xfe":
        raise Reject("not_text", "expected UTF-8")
    if record.value.startswith(b"not json"):
        return {"value": len(record.value), "label": record.timestamp_ms}
    return record.json()
"""
BATCH = """
import pyarrow as pa


def clicks(batch, lookups):
    values = [float(len(value)) for value in batch.column("value").to_pylist()]
    columns = {"value": pa.array(values, pa.float32()), "label": batch.column("timestamp")}
    return pa.RecordBatch.from_pydict({**columns, "_row": batch.column("_row")})
"""


@pytest.fixture
def broken(project):
    rows = [event(i, START_MS + i) for i in range(20)]
    for number, value in ((3, b"not json"), (5, b""), (7, b"\xff\xfe"), (9, LARGE), (11, b"{}")):
        rows[number] = {"value": value, "timestamp": START_MS + number, "key": b"a key"}
    project.record({0: [batch(rows)], 1: [batch(rows[:4])]})
    project.prebuilt()
    write(project, CODE)
    return project


def write(project, code):
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)


def files(project):
    beside = {"previews", project.folder.quarantine_audit.name}
    return {path for path in project.path.rglob("*") if path.name not in beside}


def previewed(project, reason=None, limit=100):
    found = quarantine_of_version(project.version())
    return preview_quarantine(project.spec, project.env, found, reason=reason, limit=limit)


def outcome(report, reason):
    (found,) = (each for each in report.outcomes if each.reason == reason)
    return found


def test_a_preview_says_by_reason_what_would_become_of_the_records(broken):
    before = files(broken)
    write(broken, CODE.replace("return record.json()", 'raise Reject("no_value")'))
    report = previewed(broken)
    assert (report.quarantined, report.valid, report.left_out) == (6, 3, 0)
    assert report.filtered == {"nothing": 1}
    not_json = outcome(report, "not_json")
    assert (not_json.records, not_json.valid, not_json.filtered) == (5, 3, 1)
    assert not_json.quarantined == {"not_text": 1}
    assert outcome(report, "no_value").quarantined == {"no_value": 1}
    assert files(broken) == before


def test_records_come_whole_from_landing_with_their_time(broken):
    write(broken, CODE.replace("return record.json()", 'raise Reject("no_value")'))
    samples = outcome(previewed(broken), "not_json").samples
    assert sorted(
        (each["source"], each["offset"], each["sample"]["value"]) for each in samples
    ) == [
        ("kafka:clicks/0", 3, 8.0),
        ("kafka:clicks/0", 9, float(len(LARGE))),
        ("kafka:clicks/1", 3, 8.0),
    ]
    assert {each["sample"]["label"] for each in samples} == {START_MS + 3, START_MS + 9}


def test_what_landing_lost_comes_from_the_quarantine_as_far_as_it_is_whole(broken):
    write(broken, CODE.replace("return record.json()", 'raise Reject("no_value")'))
    shutil.rmtree(broken.path / "landing")
    report = previewed(broken)
    assert (report.valid, report.left_out) == (2, 1)
    assert any("without key, headers" in note for note in report.notes)
    assert any("1 records were not previewed" in note for note in report.notes)


def test_a_record_that_landing_lacks_comes_from_the_quarantine(broken):
    for file in (broken.path / "landing").rglob("*.arrow"):
        with opened_landing(Location.parse(str(file))) as landing:
            batches = [each.filter(pc.field("offset") != 3) for each in landing.iter_batches()]
        file.unlink()
        with file.open("wb") as written:
            write_landing(written, batches, "kafka:clicks/0")
    write(broken, CODE.replace("return record.json()", 'raise Reject("no_value")'))
    report = previewed(broken)
    assert (report.valid, report.left_out) == (2, 1)
    assert any("the first is 3" in note for note in report.notes)


def test_reason_and_number_choose_records(broken):
    report = previewed(broken, "not_json", 2)
    assert [each.reason for each in report.outcomes] == ["not_json"]
    assert report.outcomes[0].records == 2


def test_batch_mode_runs_and_says_what_it_cannot_know(broken):
    broken.edit("input: record", "input: batch")
    write(broken, BATCH)
    report = previewed(broken)
    assert report.valid == 6
    assert any("without the records that stand between them" in note for note in report.notes)


def test_limits_are_those_of_a_build(broken):
    broken.edit("seed: 7", "seed: 7\nresources: {time_limit: 1s}")
    write(broken, CODE.replace('return Filtered("nothing")', "while True: pass"))
    with pytest.raises(PreprocessError, match=r"took longer than .* kafka:clicks/0 offset 5"):
        previewed(broken)


def test_a_function_that_raises_is_the_error_of_a_build(broken):
    with pytest.raises(PreprocessError, match=r"broke the schema: .*kafka:clicks/0 offset 11"):
        previewed(broken)


def test_a_failed_build_is_previewed_too(project):
    gate = "quality: [{check: quarantine_ratio, max: 0}]"
    project.edit("seed: 7", f"seed: 7\n{gate}")
    with pytest.raises(GateError):
        project.build()
    write(project, CODE)
    (found,) = unpublished_plans(project.env, "clicks", "2024-03-01")
    report = preview_quarantine(project.spec, project.env, found, limit=100)
    assert (report.is_published, report.valid) == (False, report.quarantined)


@pytest.mark.parametrize("land", ["", ", land: true"])
def test_lines_of_plain_and_compressed_log_files(tmp_path, land):
    project = make_log_project(tmp_path)
    project.edit("wait: 36500d", f"wait: 36500d, split_bytes: 200B{land}".replace("200B", "200"))
    project.edit("split_bytes: 64MiB,", "")
    project.build()
    write(project, CODE)
    report = previewed(project)
    assert report.valid == report.quarantined > 15
    assert report.notes == []


def test_log_files_that_are_gone_leave_the_lines_of_the_quarantine(tmp_path):
    project = make_log_project(tmp_path)
    project.build()
    shutil.rmtree(project.logs)
    write(project, CODE)
    report = previewed(project)
    assert report.valid == report.quarantined
    assert report.notes


@pytest.mark.parametrize(
    "place", [("kafka:other/0", 3), ("kafka:clicks/0", -1), ("kafka:clicks/0", 20)]
)
def test_a_position_that_the_plan_did_not_read_is_damage(broken, place):
    plan = load_plan(broken.folder, quarantine_of_version(broken.version()).plan)
    with pytest.raises(FormatError, match=r"inputs of plan .* in the file"):
        Pieces(plan, "the file").piece_of(QuarantinedPlace(*place, "not_json"))
