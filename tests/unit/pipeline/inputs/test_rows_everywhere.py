"""What exists for lines works for rows: quarantine, replay, looks, differences, what is kept."""

import base64
import json
import os
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.pipeline.inputs.row_project import (
    CODE,
    FORMATS,
    as_batches,
    make_row_project,
    rows,
    samples,
    write_rows,
)
from tests.unit.pipeline.log_project import DAY
from trainfeed.errors import LogsMissingError
from trainfeed.look.difference import Side, difference
from trainfeed.look.lineage.tracer import SourcePosition, record_fate
from trainfeed.pipeline.inputs.row_json import as_values, row_values, with_fields
from trainfeed.pipeline.preview import dry_run, preview
from trainfeed.pipeline.quarantine import raw_records
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.review import inspect_records, preview_quarantine
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.upkeep.retention.leftovers import KeptTexts
from trainfeed.upkeep.retention.uses import Look

ALL = (*FORMATS, "recordio", "tfrecord")
FIXED = CODE.replace('raise Reject("no_value", "expected a value")', 'row = {**row, "value": 0.5}')
BROKEN = [row for row in rows(0, 140) if row["value"] is None]


def kept(project):
    return quarantine_of_version(project.version())


@pytest.mark.parametrize("mode", ["record", "batch"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_the_quarantine_has_the_row_as_json(tmp_path, file_format, mode):
    project = make_row_project(tmp_path, file_format)
    (as_batches(project) if mode == "batch" else project).build()
    found = list(raw_records(kept(project)))
    assert [json.loads(record.raw) for record in found] == BROKEN
    assert [record.offset for record in found if record.source.endswith("part-0")] == [
        *range(3, 100, 10)
    ]
    whole = inspect_records(project.env, project.spec, kept(project), found)
    assert [record.value for record in whole] == [record.raw for record in found]
    assert all(record.is_whole and not record.why_not for record in whole)


@pytest.mark.parametrize("mode", ["record", "batch"])
@pytest.mark.parametrize("file_format", ALL)
def test_quarantined_rows_are_previewed_with_their_fields(tmp_path, file_format, mode):
    project = make_row_project(tmp_path, file_format, group_rows=9)
    project.edit("64MiB", "300B")
    project.build()
    code = FIXED
    if mode == "batch":
        as_batches(project)
        code = (project.env.datasets / "clicks/preprocess.py").read_text()
        code = code.replace('"_rejected": "no_value", "_message"', '"value": 0.5, "_message"')
    (project.env.datasets / "clicks/preprocess.py").write_text(code)
    report = preview_quarantine(project.spec, project.env, kept(project), limit=100)
    assert report.quarantined == report.valid == len(BROKEN)
    assert len(report.notes) == (mode == "batch")


def test_rows_of_files_that_are_gone_are_previewed_from_the_quarantine(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    project.build()
    shutil.rmtree(project.logs)
    (project.env.datasets / "clicks/preprocess.py").write_text(FIXED)
    report = preview_quarantine(project.spec, project.env, kept(project), limit=100)
    assert report.valid == len(BROKEN)
    assert report.notes


@pytest.mark.parametrize("file_format", ALL)
def test_a_replay_has_the_bytes_of_a_build_with_the_new_function(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format)
    project.build()
    (project.env.datasets / "clicks/preprocess.py").write_text(FIXED)
    other = project.elsewhere("other")
    other.build()
    report = project.build(replay=True)
    assert (report["generation"], report["quarantined"]) == ("g0002", 0)
    mine, others = project.version().manifest, other.version().manifest
    assert (mine.content_digest, mine.ledger) == (others.content_digest, others.ledger)


@pytest.mark.parametrize("file_format", ALL)
def test_a_dry_run_writes_nothing_and_a_look_shows_the_first_rows(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format, counts=(100, 40))
    for path in [*project.logs.iterdir(), project.logs]:
        os.utime(path, (0, 0))
    before = sorted(project.path.rglob("*"))
    said = dry_run(project.spec, project.interval(), project.env)
    assert (said.sources, said.verdict) == (2, "build")
    found = preview(project.spec, project.interval(), project.env, limit=20)
    assert sorted(project.path.rglob("*")) == before
    assert found["records"] == 20
    assert found["quarantined"] == {"no_value": 1 + 1}
    first = found["first_quarantined"][0]
    assert (first["offset"], json.loads(first["raw"])) == (3, BROKEN[0])


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_function_that_raises_is_an_error_with_the_row(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format)
    project.edit('if row["value"] < 0', 'if 1 // (row["value"] - 7.0) < 0', "preprocess.py")
    with pytest.raises(Exception, match=r'part-0 offset 7; the record: \{"value": 7.0, "copies"'):
        project.build()


def test_intervals_that_never_come_are_decided_as_for_lines(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    shutil.rmtree(project.logs)
    project.edit("wait: 36500d", "wait: 0s")
    with pytest.raises(LogsMissingError):
        project.build()
    project.edit("wait: 0s", "wait: 0s, missing: empty")
    assert project.build()["verdict"] == "built"
    assert project.version().manifest.empty


def test_files_without_rows_are_no_samples_and_no_error(tmp_path):
    project = make_row_project(tmp_path, "parquet", counts=(0, 0))
    report = project.build()
    assert (report["samples"], report["quarantined"]) == (0, 0)


def test_a_rebuild_of_one_version_reads_the_files_of_now(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    project.build()
    first = samples(project)
    write_rows(project.logs / "part-2", "parquet", rows(140, 10), 16)
    report = project.build(rebuild="a file came late")
    assert (report["generation"], len(samples(project)) > len(first)) == ("g0002", True)


def test_a_difference_of_two_versions_goes_by_rows(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    project.build()
    (project.env.datasets / "clicks/preprocess.py").write_text(FIXED)
    project.build(rebuild="missing values are 0.5")
    first, second = (Side.of(project.folder, DAY, number) for number in (1, 2))
    assert difference(first, second).differs
    position = SourcePosition.parse(f"logs:dt={DAY}/part-0@3")
    before, after = (record_fate(side.version, position) for side in (first, second))
    assert (before["fate"], before["reason"]) == ("quarantined", "no_value")
    assert (after["fate"], after["samples"]) == ("valid", 1)


def test_a_file_may_have_more_rows_than_bytes(tmp_path):
    project = make_row_project(tmp_path, "parquet", counts=())
    table = pa.table({"value": [1.0] * 9000, "copies": [1] * 9000, "name": [None] * 9000})
    pq.write_table(table, project.logs / "part-0", compression="zstd")
    assert (project.logs / "part-0").stat().st_size < 9000
    project.edit('len(row["name"])', "0", "preprocess.py")
    project.edit(
        'row["value"] is None', 'row["value"] is None or record.offset == 8999', "preprocess.py"
    )
    project.build()
    manifest = project.version().manifest
    position = SourcePosition.parse(f"logs:dt={DAY}/part-0@8999")
    assert position.is_in(manifest.inputs)
    assert record_fate(project.version(), position)["fate"] == "quarantined"
    (found,) = list(raw_records(kept(project)))
    (whole,) = inspect_records(project.env, project.spec, kept(project), [found])
    assert (found.offset, whole.is_whole, whole.why_not) == (8999, True, "")


def test_layouts_go_with_the_last_plan_that_names_them(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    project.build()
    (path,) = (project.folder.path / "layouts").iterdir()
    kind = KeptTexts("layouts")
    (item,) = kind._items(project.folder)
    assert item.name == f"layouts/{path.name}"
    why_of = kind._wanted(Look.at(project.folder))
    assert why_of(item.name) == "a plan names it"
    assert why_of(f"layouts/{'0' * 64}.layouts") is None


TYPES = pa.struct(
    {
        "i": pa.uint64(), "f": pa.float32(), "d": pa.float64(), "b": pa.bool_(), "s": pa.utf8(),
        "y": pa.binary(), "t": pa.timestamp("us", "UTC"), "n": pa.timestamp("ms"),
        "a": pa.date32(), "m": pa.decimal128(20, 4), "l": pa.list_(pa.list_(pa.int8())),
        "e": pa.list_(pa.float32(), 2), "x": pa.struct({"z": pa.utf8()}), "o": pa.null(),
        "h": pa.time32("ms"),
    }
)  # fmt: skip
ROW = {
    "i": (1 << 64) - 1, "f": 0.1, "d": float("-inf"), "b": False, "s": "\u2028é\"\n",
    "y": bytes(range(256)), "t": datetime(2024, 3, 1, 1, 2, 3, 4, tzinfo=UTC),
    "n": datetime(1969, 3, 1),  # noqa: DTZ001 - a column without a zone
    "a": date(1, 1, 1), "m": Decimal("-1234567890.1234"), "l": [[1, None], None, []],
    "e": [0.5, -0.0], "x": {"z": None}, "o": None, "h": None,
}  # fmt: skip


def test_json_of_a_row_gives_the_row_back_exactly():
    found = [ROW, None, dict.fromkeys(ROW), {**ROW, "d": 5e-324, "x": None, "f": float("inf")}]
    column = pa.array(found, TYPES)
    rows = [
        {"offset": n, "timestamp": 0, "timestamp_type": 0, "key": None, "value": None}
        for n in range(len(found))
    ]
    typed = pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA).append_column("fields", column)
    landed = as_values(typed)
    assert landed.schema == LANDING_SCHEMA
    types = {field.name: field.type for field in TYPES.fields}
    assert with_fields(landed, types).equals(typed)
    value = json.loads(landed.column("value")[0].as_py())
    assert base64.b64decode(value["y"]) == ROW["y"]
    assert (value["d"], value["i"], value["m"]) == ("-Infinity", ROW["i"], "-1234567890.1234")
    assert row_values(column.slice(1, 1)).to_pylist() == [None]


def test_types_of_every_kind_pass_through_a_build_and_a_replay(tmp_path):
    project = make_row_project(tmp_path, "parquet", counts=())
    names = [name for name in TYPES.names if name != "o"]
    table = pa.Table.from_pylist(
        [ROW, {**ROW, "b": None}], pa.schema([TYPES.field(n) for n in names])
    )
    pq.write_table(table, project.logs / "part-0")
    code = """
from datetime import datetime
from trainfeed.preprocessing import Reject


def clicks(record, lookups):
    row = record.fields
    assert isinstance(row["t"], datetime) and row["y"] == bytes(range(256)), row
    assert row["i"] == (1 << 64) - 1 and row["l"] == [[1, None], None, []]
    if row["b"] is None and REJECTS:
        raise Reject("no_b")
    return {"value": row["f"], "label": 1}
"""
    path = project.env.datasets / "clicks/preprocess.py"
    path.write_text(f"REJECTS = True\n{code}")
    assert project.build()["quarantined"] == 1
    path.write_text(f"REJECTS = False\n{code}")
    report = preview_quarantine(project.spec, project.env, kept(project), limit=100)
    assert report.valid == 1
