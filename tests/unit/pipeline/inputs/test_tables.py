"""A table of Iceberg: which snapshots an interval reads, and what is refused."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from tests.unit.pipeline.inputs.row_project import CODE, as_batches, make_row_project, rows, samples
from tests.unit.pipeline.inputs.table_project import (
    NAME,
    NEXT,
    SCHEMA,
    at,
    make_table_project,
)
from tests.unit.pipeline.log_project import DAY
from trainfeed.errors import (
    ConfigError,
    FormatError,
    NotFoundError,
    OffsetOutOfRangeError,
    SourceMissingError,
    SourceReplacedError,
    TableNotFoundError,
    WindowOpenError,
)
from trainfeed.look.difference import Side, difference
from trainfeed.look.lineage.tracer import SourcePosition, record_fate
from trainfeed.pipeline import Build
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.preview import dry_run, preview
from trainfeed.pipeline.quarantine import raw_records
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.review import inspect_records, preview_quarantine
from trainfeed.versions import Version
from trainfeed.versions.skip import read_skip

BEFORE = "2024-02-29"


def inputs(project, day=DAY):
    return Version.resolve(project.folder, day, None).manifest.inputs


def snapshots(project, day=DAY):
    return sorted({each["snapshot"]["id"] for each in inputs(project, day).values()})


def test_many_files_of_a_table_keep_their_snapshots(tmp_path, monkeypatch):
    monkeypatch.setattr("trainfeed.pipeline.plans.LISTED_ABOVE", 1)
    project = make_table_project(tmp_path)
    project.append(rows(40, 50), at(DAY, 13))
    project.build()
    assert len(inputs(project)) > 1
    assert len(snapshots(project)) == len(inputs(project))


def data_files(project):
    return sorted((project.path / "lake").rglob("data/*.parquet"))


@pytest.mark.parametrize("mode", ["record", "batch"])
def test_the_same_rows_as_a_table_and_as_files_of_json_give_equal_samples(tmp_path, mode):
    table = make_table_project(tmp_path / "table")
    lines = make_row_project(tmp_path / "lines", "lines")
    if mode == "batch":
        as_batches(table), as_batches(lines)
    else:
        code = CODE.replace("record.fields", "json.loads(record.value)").replace(
            "from trainfeed", "import json\n\nfrom trainfeed", 1
        )
        (lines.env.datasets / "clicks/preprocess.py").write_text(code)
    table.build()
    lines.build()
    assert samples(table) == samples(lines) != []
    read = [leaf["read"]["records"] for leaf in table.version().manifest.ledger.values()]
    assert sorted(read) == [40, 100]


def test_pieces_of_files_do_not_change_the_version(tmp_path):
    project = make_table_project(tmp_path)
    report = project.build()
    other = project.elsewhere("other")
    other.edit("bytes_per_record: 16", "bytes_per_record: 16, split_bytes: 200B")
    assert other.build()["manifest_sha256"] == report["manifest_sha256"]
    assert len(load_plan(other.folder, planned(other).ref).ranges) > 2


def test_a_commit_belongs_to_the_interval_of_its_time_and_to_one_only(tmp_path):
    project = make_table_project(tmp_path, counts=())
    found = {day: project.append(rows(n, 20), at(day, 0)) for n, day in ((0, DAY), (20, NEXT))}
    late = project.append(rows(40, 20), at(NEXT, 24) - 1)
    project.build_day(DAY)
    project.build_day(NEXT)
    assert snapshots(project, DAY) == [found[DAY]]
    assert snapshots(project, NEXT) == sorted([found[NEXT], late])


def test_a_commit_that_appears_late_is_read_by_the_next_interval(tmp_path):
    project = make_table_project(tmp_path)
    project.build_day(DAY)
    first = snapshots(project)
    late = project.append(rows(200, 10), at(DAY, 23))
    assert project.build_day(DAY)["verdict"] == "identical"
    project.build_day(NEXT)
    assert snapshots(project, NEXT) == [late]
    assert snapshots(project) == first


def test_a_stamp_of_the_future_empties_no_interval(tmp_path):
    project = make_table_project(tmp_path, counts=(), missing="empty")
    ahead = project.append(rows(0, 10), at("2999-01-01"))
    there = project.append(rows(10, 10), at(DAY))
    project.build_day(DAY)
    project.build_day(NEXT)
    assert snapshots(project) == sorted([ahead, there])
    assert snapshots(project, NEXT) == []


def test_intervals_that_are_built_backwards_meet(tmp_path):
    project = make_table_project(tmp_path)
    after = project.append(rows(140, 10), at(NEXT))
    project.build_day(NEXT)
    late = project.append(rows(150, 10), at(DAY, 13))
    project.build_day(DAY)
    assert snapshots(project, NEXT) == [after]
    assert late not in snapshots(project, DAY)
    project.edit("end: 2024-03-31", "end: 2024-04-30")
    project.build_day("2024-03-03")
    assert snapshots(project, "2024-03-03") == [late]


def test_a_compaction_adds_no_rows_and_is_noted(tmp_path, caplog):
    project = make_table_project(tmp_path)
    # pyiceberg writes no ``replace``; its overwrite of all rows has the same files and counts.
    table = project.table()
    table.overwrite(table.scan().to_arrow())
    kept = [s.snapshot_id for s in project.table().snapshots()][-1]
    deleting = project.table().snapshots()[-2].snapshot_id
    counts = {"added-records": "140", "deleted-records": "140", "operation": "replace"}
    project.expire(deleting)
    parent = project.table().snapshots()[1].snapshot_id
    project.stamp(at(DAY, 20), **{"summary": counts, "parent-snapshot-id": parent})
    project.build()
    assert kept not in snapshots(project)
    assert project.version().manifest.passed_over == {
        f"snapshot {kept}": "replace: it adds no rows"
    }
    assert len(inputs(project)) == 2
    assert f"passed over in the table: 1 replace: it adds no rows (snapshot {kept})" in caplog.text


@pytest.mark.parametrize("change", ["delete", "overwrite"])
def test_changed_and_deleted_rows_are_refused_by_the_id_of_the_snapshot(tmp_path, change):
    project = make_table_project(tmp_path)
    if change == "delete":
        project.table().delete("copies == 2")
    else:
        project.table().delete("value == 7")
    number = project.stamp(at(DAY, 20))
    operation = project.table().current_snapshot().summary.operation.value
    with pytest.raises(SourceReplacedError, match=rf"(?s){number}.*{operation}.*--allow-gap"):
        project.build()
    assert not project.folder.interval(DAY).exists()
    project.build(allow_gap="the rows of a test were taken back")
    gap = project.version().manifest.gaps
    assert [(each["source"], each["end"] - each["start"]) for each in gap] == [
        (f"iceberg:{NAME}", 1)
    ]
    assert number not in snapshots(project)
    assert str(number) in str(project.version().manifest.passed_over)


def test_a_delete_behind_the_interval_changes_nothing_of_it(tmp_path):
    project = make_table_project(tmp_path)
    project.table().delete("value > 0")
    project.stamp(at(NEXT))
    project.build()
    assert len(samples(project)) == 112


def test_an_append_with_deletes_is_refused(tmp_path):
    project = make_table_project(tmp_path)
    summary = {"operation": "append", "added-delete-files": "1", "added-records": "40"}
    number = project.stamp(at(DAY, 2), summary=summary)
    with pytest.raises(SourceReplacedError, match=f"{number}.*appends deletes"):
        project.build()


def test_a_summary_that_counts_other_rows_is_refused(tmp_path):
    project = make_table_project(tmp_path)
    project.stamp(at(DAY, 2), summary={"operation": "append", "added-records": "41"})
    with pytest.raises(FormatError, match=r"added-records 41.*got 40"):
        project.build()


def test_an_expired_start_is_a_gap_with_a_name(tmp_path):
    project = make_table_project(tmp_path)
    first, second = (each.snapshot_id for each in project.table().snapshots())
    project.expire(first)
    with pytest.raises(OffsetOutOfRangeError, match=rf"(?s)expired.*{second}.*--allow-gap"):
        project.build()
    project.build(allow_gap="a restore is too late")
    assert snapshots(project) == [second]
    assert [gap["why"] for gap in project.version().manifest.gaps] == ["a restore is too late"]
    # The reason was given once: a rebuild has the same gap.
    project.build(rebuild="again")
    assert project.version().manifest.gaps[0]["why"] == "a restore is too late"


def test_an_expiry_behind_a_known_boundary_loses_nothing(tmp_path):
    project = make_table_project(tmp_path)
    project.build_day(DAY)
    project.append(rows(140, 10), at(NEXT))
    project.expire(*(each.snapshot_id for each in project.table().snapshots()[:2]))
    project.build_day(NEXT)
    assert Version.resolve(project.folder, NEXT, None).manifest.gaps == []
    # What is published stays: its files cannot have changed.
    assert project.build_day(DAY)["verdict"] == "identical"


def test_an_expiry_of_snapshots_that_no_interval_read_is_a_gap(tmp_path):
    project = make_table_project(tmp_path)
    project.build_day(DAY)
    gone = project.append(rows(140, 10), at(NEXT, 1))
    project.append(rows(150, 10), at(NEXT, 2))
    project.expire(*(each.snapshot_id for each in project.table().snapshots()[:2]), gone)
    with pytest.raises(OffsetOutOfRangeError, match="expired"):
        project.build_day(NEXT)


def test_an_interval_of_which_all_snapshots_expired_is_not_taken_as_empty(tmp_path):
    """The boundaries that its own plan writes down prove nothing of what was before them."""
    project = make_table_project(tmp_path, missing="empty")
    there = project.append(rows(140, 10), at(NEXT))
    project.expire(*(each.snapshot_id for each in project.table().snapshots()[:2]))
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError, match=r"(?s)expired.*--allow-gap"):
            project.build()
    project.build(allow_gap="a restore is too late")
    manifest = project.version().manifest
    gaps = [(each["start"], each["end"], each["why"]) for each in manifest.gaps]
    assert gaps == [(1, 3, "a restore is too late")]
    assert manifest.empty_because == {f"iceberg:{NAME}": "lost: a restore is too late"}
    project.build(rebuild="again")
    assert project.version().manifest.empty_because == manifest.empty_because
    # The next one begins where nothing is known.
    with pytest.raises(OffsetOutOfRangeError, match="expired"):
        project.build_day(NEXT)
    project.build_day(NEXT, allow_gap="the same")
    assert snapshots(project, NEXT) == [there]


def test_a_day_before_the_first_snapshot_stays_empty_when_snapshots_expire(tmp_path):
    project = make_table_project(tmp_path, counts=(), missing="empty")
    project.append(rows(0, 10), at(NEXT, 1))
    project.build()
    project.append(rows(10, 10), at(NEXT, 2))
    project.expire(project.table().snapshots()[0].snapshot_id)
    assert project.build()["verdict"] == "identical"
    assert project.build(rebuild="again")["verdict"] == "built"
    assert project.version().manifest.gaps == []


def test_a_branch_that_was_set_back_is_refused(tmp_path):
    project = make_table_project(tmp_path)
    project.build_day(DAY)
    first = project.table().snapshots()[0].snapshot_id
    project.table().manage_snapshots().set_current_snapshot(snapshot_id=first).commit()
    project.append(rows(140, 10), at(NEXT))
    with pytest.raises(SourceReplacedError, match="set back"):
        project.build_day(NEXT)


def test_other_branches_are_not_read(tmp_path):
    project = make_table_project(tmp_path)
    first = project.table().snapshots()[0].snapshot_id
    project.table().manage_snapshots().create_branch(first, "trial").commit()
    project.table().append(pa.Table.from_pylist(list(rows(0, 9)), SCHEMA), branch="trial")
    project.build()
    assert len(inputs(project)) == 2


def test_a_renamed_column_keeps_its_values_and_a_new_one_is_null_before(tmp_path):
    project = make_table_project(tmp_path, counts=(20,))
    with project.table().update_schema() as update:
        update.rename_column("name", "rider")
        update.add_column("note", StringType())
        update.update_column("copies", LongType())
        update.move_first("note")
    renamed = pa.schema(
        [("value", pa.float64()), ("copies", pa.int64()), ("rider", pa.utf8()), ("note", pa.utf8())]
    )
    later = [{**row, "rider": row.pop("name"), "note": "new"} for row in rows(20, 20)]
    project.append(later, at(DAY, 5), renamed)
    code = CODE.replace('row["name"]', 'row["rider"]').replace(
        "    return [{", '    assert row["note"] in {None, "new"}\n    return [{'
    )
    (project.env.datasets / "clicks/preprocess.py").write_text(code)
    project.build()
    same = make_table_project(tmp_path / "same", counts=(40,))
    same.build()
    assert samples(project) == samples(same)
    kept = list(raw_records(quarantine_of_version(project.version())))
    assert [json.loads(each.raw)["note"] for each in kept].count("new") == len(kept) - 2 == 2


def test_the_schema_is_that_of_the_end_of_the_interval_not_of_now(tmp_path):
    project = make_table_project(tmp_path)
    report = project.build()
    with project.table().update_schema() as update:
        update.rename_column("name", "rider")
    project.append(
        [{**row, "rider": row.pop("name")} for row in rows(140, 10)],
        at(NEXT),
        pa.schema([("value", pa.float64()), ("copies", pa.int32()), ("rider", pa.utf8())]),
    )
    assert project.build()["verdict"] == "identical"
    other = project.elsewhere("other")
    assert other.build()["content_digest"] == report["content_digest"]


def test_only_the_columns_that_are_named_are_read(tmp_path):
    project = make_table_project(tmp_path, columns="[copies, value]")
    code = CODE.replace('len(row["name"])', "0").replace(
        "    row = record.fields",
        '    row = record.fields\n    assert [*row] == ["copies", "value"]',
    )
    (project.env.datasets / "clicks/preprocess.py").write_text(code)
    project.build()
    assert len(samples(project)) == 112
    project.edit("[copies, value]", "[copies, vlaue]")
    with pytest.raises(ConfigError, match=r"vlaue.*got value, copies, name"):
        project.build(rebuild="other columns")


def test_a_type_that_does_not_hold_the_values_of_a_file_is_refused(tmp_path):
    project = make_table_project(tmp_path, counts=())
    table = project.table()
    path = project.path / "lake/other.parquet"
    kinds = pa.schema([("value", pa.float64()), ("copies", pa.int64()), ("name", pa.utf8())])
    pq.write_table(pa.Table.from_pylist(list(rows(0, 5)), kinds), path)
    table.append(pa.Table.from_pylist(list(rows(0, 5)), SCHEMA))
    data_files(project)[0].write_bytes(path.read_bytes())
    project.stamp(at(DAY, 1))
    with pytest.raises((FormatError, SourceReplacedError)):
        project.build()


def test_fields_within_a_column_are_those_with_the_same_ids(tmp_path):
    """A field that was renamed within a struct would give its neighbour's values."""
    project = make_table_project(tmp_path, counts=())
    inner = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    with project.table().update_schema() as update:
        fields = [
            NestedField(100 + n, name, IntegerType(), required=False) for n, name in enumerate("ab")
        ]
        update.add_column("pair", StructType(*fields))
    kinds = pa.schema([*SCHEMA, ("pair", inner)])
    found = [{**row, "pair": {"a": 1, "b": 2}} for row in rows(0, 10)]
    project.append(found, at(DAY, 1), kinds)
    report = project.build()
    assert report["samples"] > 0
    with project.table().update_schema() as update:
        update.rename_column("pair.a", "c")
        update.rename_column("pair.b", "a")
    with project.table().update_schema() as update:
        update.rename_column("pair.c", "b")
    with project.table().update_schema() as update:
        update.move_first("pair.a")
    swapped = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    kinds = pa.schema([*SCHEMA, ("pair", swapped)])
    project.append(found, at(DAY, 23), kinds)
    other = project.elsewhere("other")
    with pytest.raises(FormatError, match=rf"'pair' of table {NAME} .* have other ids"):
        other.build()
    other.edit("bytes_per_record: 16", "bytes_per_record: 16, columns: [value, copies, name]")
    other.build()


def test_files_without_ids_are_read_by_the_names_that_the_table_knows(tmp_path):
    project = make_table_project(tmp_path, counts=())
    path = project.path / "lake/other.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows(0, 40)), SCHEMA), path)
    project.table().add_files([f"file://{path}"])
    project.stamp(at(DAY, 1))
    project.build()
    same = make_table_project(tmp_path / "same", counts=(40,))
    same.build()
    assert samples(project) == samples(same)
    (source,) = inputs(project)
    assert source == f"iceberg:{NAME}/file://{path}"


def planned(project):
    report = plan(project.spec, project.interval(), project.env)
    return Build(project.spec, project.env, report.ref)


@pytest.mark.parametrize("fault", ["gone", "replaced", "cut"])
def test_a_file_that_goes_between_plan_and_read_is_named_with_table_and_snapshot(tmp_path, fault):
    project = make_table_project(tmp_path, counts=(40,))
    build = planned(project)
    (path,) = data_files(project)
    if fault == "gone":
        path.unlink()
    elif fault == "replaced":
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
        os.utime(path, (1, 1))
    else:
        path.write_bytes(path.read_bytes()[:-9])
    number = project.table().current_snapshot().snapshot_id
    words = {"gone": "is gone", "replaced": "was replaced", "cut": "was replaced: .*length"}[fault]
    with pytest.raises(SourceReplacedError, match=rf"(?s){path.name}.*{NAME}.*{number}.*{words}"):
        preprocess(build, 0)


def test_a_file_that_was_gone_before_the_plan_is_named(tmp_path):
    project = make_table_project(tmp_path, counts=(40,))
    (path,) = data_files(project)
    path.unlink()
    with pytest.raises(SourceReplacedError, match=rf"{path.name} of table {NAME}.*is gone"):
        project.build()


def test_damage_of_a_file_and_of_metadata_is_an_error_with_its_place(tmp_path):
    project = make_table_project(tmp_path, counts=(40,))
    (path,) = data_files(project)
    data = bytearray(path.read_bytes())
    data[-12:-8] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"as source\.iceberg says"):
        project.build()
    manifest = next((project.path / "lake").rglob("*-m0.avro"))
    manifest.write_bytes(manifest.read_bytes()[:300])
    with pytest.raises(FormatError, match="metadata of table"):
        project.build()


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"])
def test_a_manifest_that_is_gone_is_named_and_leaves_the_version(tmp_path, kind):
    """As when the snapshot is expired between the answer of the catalogue and the plan."""
    project = make_table_project(tmp_path, counts=(40,))
    project.build()
    next((project.path / "lake").rglob(kind)).unlink()
    assert project.build()["verdict"] == "identical"
    number = project.table().current_snapshot().snapshot_id
    for again in (project.elsewhere("other").build, lambda: project.build(rebuild="again")):
        with pytest.raises(SourceReplacedError, match=rf"{NAME}, snapshot {number}, got none"):
            again()


def test_metadata_that_is_gone_is_named_with_its_table(tmp_path):
    project = make_table_project(tmp_path, counts=(40,))
    path = Path(project.table().metadata_location.removeprefix("file://"))
    path.unlink()
    with pytest.raises(NotFoundError, match=f"metadata of table {NAME} at .*{path}.*run again"):
        project.build()


@pytest.mark.parametrize(
    "kind",
    [
        "variant",
        {"type": "list", "element-id": 91, "element": "variant", "element-required": False},
        {"type": "map", "key-id": 91, "key": "int", "value-id": 92, "value": "variant"},
        {"type": "struct", "fields": [{"id": 91, "name": "type", "type": "variant"}]},
    ],
)
def test_a_column_of_variants_is_left_out_or_refused_by_its_name(tmp_path, kind):
    project = make_table_project(tmp_path)
    path = Path(project.table().metadata_location.removeprefix("file://"))
    found = json.loads(path.read_text())
    fields = found["schemas"][-1]["fields"]
    fields.append({"id": 90, "name": "variant", "type": kind, "required": False})
    if isinstance(kind, dict) and kind["type"] == "map":
        kind["value-required"] = False
    if isinstance(kind, dict) and kind["type"] == "struct":
        kind["fields"][0]["required"] = False
    found |= {"format-version": 3, "last-column-id": 92, "next-row-id": 140}
    path.write_text(json.dumps(found))
    with pytest.raises(ConfigError, match=r"columns \['variant'\] of table .*the other columns"):
        project.build()
    project.edit("bytes_per_record: 16", "bytes_per_record: 16, columns: [value, copies, name]")
    project.build()
    assert len(samples(project)) == 112


def test_a_length_that_a_manifest_makes_up_is_refused_at_once(tmp_path):
    """The reader of manifests reads behind the end of these 13 bytes, and does not come back."""
    project = make_table_project(tmp_path, counts=(40,))
    manifest = next((project.path / "lake").rglob("*-m0.avro"))
    manifest.write_bytes(bytes.fromhex("4f626a01 e2a8bfa179 fa8cb032"))
    with pytest.raises(FormatError, match="metadata of table"):
        project.build()


def test_an_interval_without_a_commit_follows_the_rule(tmp_path):
    project = make_table_project(tmp_path, wait="2d")
    with pytest.raises(SourceMissingError, match=f"nothing was appended to table {NAME}"):
        project.build_day(NEXT)
    project.edit("wait: 2d", "wait: 2d, missing: empty")
    report = project.build_day(NEXT)
    found = Version.resolve(project.folder, NEXT, None).manifest
    assert (report["samples"], found.empty_because) == (
        0,
        {f"iceberg:{NAME}": "nothing_appended"},
    )
    project.edit("missing: empty", "missing: skip")
    skipped = project.build_day("2024-03-03")
    assert skipped["verdict"] == "skipped"
    # The boundaries of a skipped interval are fixed as well: nothing falls behind it.
    late = project.append(rows(200, 10), at("2024-03-03"))
    project.build_day("2024-03-04")
    assert snapshots(project, "2024-03-04") == [late]


def test_a_run_waits_for_the_first_commit_unless_the_table_has_gone_on(tmp_path):
    project = make_table_project(tmp_path, wait="36500d", missing="skip")
    with pytest.raises(WindowOpenError, match="waits until"):
        project.build_day(NEXT)
    project.append(rows(200, 10), at("2024-03-05"))
    assert project.build_day(NEXT)["verdict"] == "skipped"
    decided = read_skip(project.folder, NEXT)
    assert decided.until == decided.at
    # No message names the end of a wait that nothing waits for.
    project.edit("missing: skip", "missing: fail")
    with pytest.raises(SourceMissingError, match="as the table has later commits") as caught:
        project.build_day("2024-03-03")
    assert "waited for until" not in f"{caught.value}{decided.why}"


def test_a_table_that_is_gone_leaves_its_versions(tmp_path):
    project = make_table_project(tmp_path)
    project.build()
    project.catalog().drop_table(NAME)
    report = project.build()
    assert report["verdict"] == "identical"
    with pytest.raises(TableNotFoundError, match=NAME):
        project.build(rebuild="again")


def test_a_dry_run_and_a_preview_write_nothing_and_read_the_first_rows(tmp_path):
    project = make_table_project(tmp_path)
    before = sorted((tmp_path / "root").rglob("*"))
    found = dry_run(project.spec, project.interval(), project.env)
    assert (found.verdict, found.sources, found.lands) == ("build", 2, False)
    report = preview(project.spec, project.interval(), project.env, limit=30)
    assert report["records"] == 30
    assert sorted((tmp_path / "root").rglob("*")) == before
    with pytest.raises(SourceMissingError):
        preview(
            project.spec, project.spec.schedule_model().interval_named(NEXT), project.env, limit=3
        )


def test_a_preview_has_the_columns_by_their_ids(tmp_path):
    project = make_table_project(tmp_path, counts=(20,))
    with project.table().update_schema() as update:
        update.rename_column("name", "rider")
    kinds = pa.schema([("value", pa.float64()), ("copies", pa.int32()), ("rider", pa.utf8())])
    project.append([{**r, "rider": r.pop("name")} for r in rows(20, 20)], at(DAY, 5), kinds)
    code = CODE.replace('row["name"]', 'row["rider"]')
    (project.env.datasets / "clicks/preprocess.py").write_text(code)
    report = preview(project.spec, project.interval(), project.env, limit=10)
    assert report["records"] == 10


def test_the_quarantine_has_the_row_and_its_position(tmp_path):
    project = make_table_project(tmp_path)
    project.build()
    kept = quarantine_of_version(project.version())
    found = list(raw_records(kept))
    broken = [row for row in rows(0, 140) if row["value"] is None]
    assert sorted(json.loads(each.raw)["name"] for each in found) == sorted(
        row["name"] for row in broken
    )
    whole = inspect_records(project.env, project.spec, kept, found)
    assert all(each.is_whole and not each.why_not for each in whole)
    fixed = CODE.replace(
        'raise Reject("no_value", "expected a value")', 'row = {**row, "value": 0.5}'
    )
    (project.env.datasets / "clicks/preprocess.py").write_text(fixed)
    report = preview_quarantine(project.spec, project.env, kept, limit=100)
    assert report.quarantined == report.valid == len(broken)


def test_lineage_and_differences_know_the_files_of_a_table(tmp_path):
    project = make_table_project(tmp_path, counts=(40,))
    project.build()
    (source,) = inputs(project)
    version = project.version()
    fates = [record_fate(version, SourcePosition.parse(f"{source}@{n}"))["fate"] for n in range(6)]
    assert fates == ["valid", "valid", "valid", "quarantined", "no sample", "valid"]
    assert SourcePosition.parse(f"{source}@39").is_in(version.manifest.inputs)
    late = project.append(rows(40, 10), at(DAY, 13))
    project.folder.table_boundary(
        project.table().metadata.table_uuid.__str__(), project.interval().end
    ).unlink()
    project.build(rebuild="the boundary was wrong")
    found = difference(Side.of(project.folder, DAY, 1), Side.of(project.folder, DAY, 2))
    assert str(late) in str(found.to_json())


def test_what_follows_from_a_table_is_equal_in_another_process_and_order(tmp_path):
    project = make_table_project(tmp_path, counts=(30, 20, 10))
    first = project.build()
    again = project.elsewhere("again").build()
    assert first["manifest_sha256"] == again["manifest_sha256"]


def test_the_plan_names_snapshot_and_sequence(tmp_path):
    project = make_table_project(tmp_path)
    build = planned(project)
    found = load_plan(project.folder, build.ref)
    numbers = sorted((each.snapshot.sequence, each.timestamp_ms) for each in found.inputs.values())
    assert numbers == [(1, at(DAY, 1)), (2, at(DAY, 2))]
    assert len({each.snapshot.columns for each in found.inputs.values()}) == 1


def test_every_row_of_random_commits_is_read_once(tmp_path):
    """Days in any order, with commits that appear late, against a list of what was written."""
    import random

    chance = random.Random(7)
    days = [f"2024-03-{number:02}" for number in range(1, 6)]
    for case in range(6):
        project = make_table_project(tmp_path / str(case), counts=(), missing="empty")
        number, clock, written = 0, at(days[0]), []
        order = chance.sample(days, len(days))
        for day in order:
            for _ in range(chance.randrange(3)):
                clock = max(clock - 30_000, clock + chance.randrange(40) * 3_600_000)
                count = 1 + chance.randrange(5)
                project.append(rows(number, count), min(clock, at(days[-1], 23)))
                written += range(number, number + count)
                number += count
            project.build_day(day)
        project.build_day("2024-03-06")
        read = []
        for day in [*days, "2024-03-06"]:
            version = Version.resolve(project.folder, day, None)
            for source in version.manifest.inputs:
                path = project.path / "lake/shop/clicks" / source.partition("clicks/")[2]
                read.append(path.name)
        assert sorted(read) == [path.name for path in data_files(project)]
