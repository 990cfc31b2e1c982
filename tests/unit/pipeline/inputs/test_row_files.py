"""Files of rows and records as sources: Parquet, ORC, Arrow, RecordIO and TFRecord."""

import gzip
from hashlib import sha256

import pyarrow as pa
import pytest

from tests.unit.pipeline.inputs.row_project import (
    FORMATS,
    TYPES,
    as_batches,
    make_row_project,
    rows,
    samples,
    write_rows,
)
from tests.unit.pipeline.log_project import DAY
from trainfeed.errors import ConfigError, FormatError, NotFoundError, SourceReplacedError
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs.row_files import RowRange, iter_rows, kept_layouts
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.stage import Stage
from trainfeed.versions import Ledger

ALL = (*FORMATS, "recordio", "tfrecord")
SOURCES = [f"logs:dt={DAY}/part-{n}" for n in range(3)]


@pytest.fixture(scope="module")
def from_lines(tmp_path_factory):
    """The samples and counts of the rows as JSON lines."""
    project = make_row_project(tmp_path_factory.mktemp("lines"), "lines")
    report = project.build()
    counts = [report[name] for name in ("samples", "quarantined", "filtered")]
    return samples(project), counts


@pytest.mark.parametrize("mode", ["record", "batch"])
@pytest.mark.parametrize("file_format", ALL)
def test_the_same_rows_in_any_format_give_the_samples_of_json_lines(
    tmp_path, from_lines, file_format, mode
):
    project = make_row_project(tmp_path, file_format)
    if mode == "batch":
        as_batches(project)
    report = project.build()
    assert samples(project) == from_lines[0]
    assert [report[name] for name in ("samples", "quarantined", "filtered")] == from_lines[1]
    ledger = Ledger.from_json(project.version().manifest.ledger)
    assert [ledger[source].read.records for source in SOURCES] == [100, 40, 0]
    assert project.build()["verdict"] == "identical"


@pytest.mark.parametrize("file_format", ALL)
@pytest.mark.parametrize("split", ["300B"])
def test_the_size_of_pieces_changes_nothing(tmp_path, file_format, split):
    project = make_row_project(tmp_path, file_format, group_rows=7)
    other = project.elsewhere("pieces")
    project.build()
    project.edit("64MiB", split)
    with (project.env.datasets / "clicks" / "dataset.yaml").open("a") as file:
        file.write("resources: {records_per_task: 10}\n")
    other.build()
    one, two = project.version().manifest, other.version().manifest
    assert (one.content_digest, one.ledger) == (two.content_digest, two.ledger)


@pytest.mark.parametrize("file_format", FORMATS)
def test_bytes_of_rows_are_those_of_their_fields_and_sum_up(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format)
    project.build()
    leaf = project.version().manifest.ledger[SOURCES[0]]
    expected = [row_size(row) for row in rows(0, 100)]
    broken = [row_size(row) for row in rows(0, 100) if row["value"] is None]
    assert (leaf["read"]["records"], leaf["read"]["bytes"]) == (100, sum(expected))
    quarantined = leaf["quarantined"]
    assert (quarantined["records"], quarantined["bytes"]) == (len(broken), sum(broken))
    others = [leaf["valid"], quarantined, *leaf["filtered"].values()]
    assert leaf["read"]["bytes"] == sum(each["bytes"] for each in others)


def row_size(row):
    """A float64, an int32, and text in UTF-8."""
    return 8 * (row["value"] is not None) + 4 + len(row["name"].encode())


def test_the_plan_has_the_digest_of_the_layouts_and_not_the_layouts(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    planned = plan_of(project).inputs
    assert {file.kind for file in planned.values()} == {"parquet"}
    (digest,) = {file.layouts for file in planned.values()}
    path = project.folder.layouts(digest)
    assert sha256(path.read_bytes()).hexdigest() == digest
    assert "groups" not in project.folder.plan(DAY, plan_of(project).plan_id).read_text()


def plan_of(project):
    report = plan(project.spec, project.interval(), project.env)
    return load_plan(project.folder, report.ref)


def test_lines_are_planned_as_ever(tmp_path):
    project = make_row_project(tmp_path, "lines")
    planned = plan_of(project).inputs[SOURCES[0]].model_dump()
    assert not {"kind", "layouts"} & planned.keys()
    assert not (project.folder.path / "layouts").exists()


@pytest.mark.parametrize("damage", ["missing", "other bytes"])
def test_layouts_that_are_gone_or_damaged_stop_the_build_with_the_way_on(tmp_path, damage):
    project = make_row_project(tmp_path, "parquet")
    build = planned(project)
    (path,) = (project.folder.path / "layouts").iterdir()
    if damage == "missing":
        path.unlink()
    else:
        path.chmod(0o600)
        path.write_bytes(path.read_bytes().replace(b"columns", b"Columns"))
    ingest(build, 0)
    with pytest.raises((NotFoundError, FormatError), match="clear the run from plan on"):
        preprocess(build, 0)
    if damage != "missing":
        path.unlink()
    assert project.build()["verdict"] == "built"


def planned(project):
    report = plan(project.spec, project.interval(), project.env)
    return Build(project.spec, project.env, report.ref)


@pytest.mark.parametrize("file_format", ALL)
def test_a_file_that_was_cut_stops_the_build_by_its_name(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format)
    path = project.logs / "part-1"
    data = path.read_bytes()
    for length in (0, 3, len(data) // 2, len(data) - 1):
        if length or file_format in FORMATS:
            path.write_bytes(data[:length])
            with pytest.raises(FormatError, match="part-1"):
                project.build()
    assert not project.folder.intervals()
    path.write_bytes(data)
    assert project.build(allow_gap="it was cut")["verdict"] == "built"


@pytest.mark.parametrize("file_format", ALL)
def test_a_file_that_is_replaced_between_plan_and_read_is_an_error(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format)
    build = planned(project)
    ingest(build, 0)
    write_rows(project.logs / "part-1", file_format, rows(500, 40), 16)
    with pytest.raises(SourceReplacedError, match="part-1"):
        preprocess(build, 0)
    with pytest.raises(SourceReplacedError, match="part-1"):
        ingest(build, 0)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_replaced_with_all_its_facts_kept_is_known_by_its_groups(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format, group_rows=16)
    build = planned(project)
    stage = Stage.open(build)
    (piece,) = (each for each in stage.plan.ranges if each.source == SOURCES[1])
    old = (project.logs / "part-1").stat()
    write_rows(project.logs / "part-1", file_format, rows(100, 39), 16)
    file = stage.plan.inputs[piece.source]
    span = RowRange(
        Location.parse(str(project.logs / "part-1")), file_format, piece.source,
        (project.logs / "part-1").stat().st_size, 0, old.st_size, 0,
    )  # fmt: skip
    with pytest.raises(SourceReplacedError, match="other groups of rows"):
        list(iter_rows(span, kept_layouts(stage.folder, file), None))


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_wider_type_of_a_column_holds_the_values_of_both_files(tmp_path, from_lines, file_format):
    project = make_row_project(tmp_path, file_format)
    wide = {**TYPES, "copies": pa.int64(), "value": pa.float64()}
    write_rows(project.logs / "part-1", file_format, rows(100, 40), 16, types=wide)
    as_batches(project).build()
    assert samples(project) == from_lines[0]
    layouts = kept_layouts(project.folder, plan_of(project).inputs[SOURCES[0]])
    assert layouts.types["copies"] == pa.int64()


@pytest.mark.parametrize("file_format", FORMATS)
def test_two_types_of_one_column_name_both_files_and_types(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format)
    found = [{**row, "copies": str(row["copies"])} for row in rows(100, 40)]
    write_rows(project.logs / "part-1", file_format, found, 16, {**TYPES, "copies": pa.utf8()})
    with pytest.raises(FormatError) as caught:
        project.build()
    for part in ("'copies'", "int32", "part-0", "string", "part-1", "source.logs.columns"):
        assert part in str(caught.value)
    project.edit("format:", "columns: [value, name], format:")
    project.edit('row["copies"]', "1", "preprocess.py")
    assert project.build()["verdict"] == "built"


def test_columns_are_the_fields_and_no_others(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    project.edit("format: parquet", "format: parquet, columns: [name, value]")
    (project.env.datasets / "clicks/preprocess.py").write_text(
        "def clicks(record, lookups):\n"
        "    assert list(record.fields) == ['name', 'value'], record.fields\n"
        "    return {'value': record.fields['value'] or 0, 'label': 1}\n"
    )
    assert project.build()["samples"] == 140
    assert plan_of(project).fingerprint_of["spec"]["source"]["columns"] == ["name", "value"]


def test_a_column_that_one_file_lacks_is_absent_in_its_rows(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    types = {name: TYPES[name] for name in ("value", "name")}
    found = [{"value": row["value"], "name": row["name"]} for row in rows(100, 40)]
    write_rows(project.logs / "part-1", "parquet", found, 16, types)
    project.edit('row["copies"]', 'row.get("copies", 1)', "preprocess.py")
    project.build()
    ledger = Ledger.from_json(project.version().manifest.ledger)
    assert ledger[SOURCES[1]].read.records == 40


def test_a_column_that_no_file_has_is_named_with_those_that_are_near(tmp_path):
    project = make_row_project(tmp_path, "parquet")
    project.edit("format: parquet", "format: parquet, columns: [value, copy]")
    with pytest.raises(ConfigError, match=r"\['copy'\].*'copies'.*correct source.logs.columns"):
        project.build()


def test_a_column_of_a_type_that_is_not_read_is_named_with_its_file(tmp_path):
    project = make_row_project(tmp_path, "arrow")
    table = pa.table({"value": [1.0], "span": pa.array([5], pa.duration("s"))})
    with pa.ipc.new_file(project.logs / "part-3", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ConfigError, match=r"'span' of .*part-3 has a type that is not read"):
        project.build()


def test_a_folder_with_a_file_of_another_format_says_which_one_to_set(tmp_path):
    project = make_row_project(tmp_path, "lines")
    write_rows(project.logs / "part-9.parquet", "parquet", rows(0, 4), 4)
    with pytest.raises(FormatError, match=r"part-9.parquet.*a Parquet file.*say format: parquet"):
        project.build()
    (project.logs / "part-9.parquet").rename(project.logs / "part-9")
    with pytest.raises(FormatError, match=r"a Parquet file.*say format: parquet.*part-9"):
        project.build()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.orc", "expected a Parquet file.*by its name an ORC file.*say format: orc"),
        ("a.csv.zip", "a zip archive.*move it away"),
        ("a.gz", "data compressed with gzip"),
        ("a.parquet.gz", "data compressed with gzip"),
        ("a.jsonl", "expected a Parquet file.*that is whole"),
    ],
)
def test_among_parquet_files_others_are_refused_by_name_or_content(tmp_path, name, message):
    project = make_row_project(tmp_path, "parquet")
    (project.logs / name).write_bytes(b'{"value": 1}\n')
    with pytest.raises(FormatError, match=message):
        project.build()


def test_tfrecords_may_be_compressed_as_a_whole(tmp_path, from_lines):
    project = make_row_project(tmp_path, "tfrecord")
    for path in project.logs.glob("part-*"):
        path.with_name(f"{path.name}.tfrecord.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    project.build()
    assert samples(project) == from_lines[0]
