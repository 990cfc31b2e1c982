"""Lines of JSON and CSV whose fields a function gets: the same rows as in files of columns."""

import gzip
import json
import os

import cramjam
import pytest

from tests.unit.pipeline.inputs.row_project import (
    as_batches,
    csv_of,
    make_row_project,
    rows,
    samples,
)
from tests.unit.pipeline.log_project import DAY
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.pipeline.inputs.row_files import kept_headers, kept_layouts
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preview import preview
from trainfeed.pipeline.quarantine import raw_records
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.review import preview_quarantine
from trainfeed.versions import Ledger

TEXT = ("json", "csv")
SOURCES = [f"logs:dt={DAY}/part-{n}" for n in range(3)]


@pytest.fixture(scope="module")
def from_parquet(tmp_path_factory):
    project = make_row_project(tmp_path_factory.mktemp("parquet"), "parquet")
    report = project.build()
    return samples(project), [report[name] for name in ("samples", "quarantined", "filtered")]


def kept(project):
    return quarantine_of_version(project.version())


@pytest.mark.parametrize("split", ["64MiB", "300B"])
@pytest.mark.parametrize("mode", ["record", "batch"])
@pytest.mark.parametrize("file_format", TEXT)
def test_the_same_rows_as_lines_give_the_samples_of_parquet(
    tmp_path, from_parquet, file_format, mode, split
):
    project = make_row_project(tmp_path, file_format)
    project.edit("64MiB", split)
    if mode == "batch":
        as_batches(project)
    report = project.build()
    headers = 2 if file_format == "csv" else 0
    assert samples(project) == from_parquet[0]
    found, quarantined, filtered = from_parquet[1]
    assert (report["samples"], report["quarantined"]) == (found, quarantined)
    assert report["filtered"] == filtered + headers
    manifest = project.version().manifest
    assert manifest.filtered.get("header", 0) == headers
    ledger = Ledger.from_json(manifest.ledger)
    counts = [ledger[source].read.records for source in SOURCES]
    assert counts == [each + bool(headers and each) for each in (100, 40, 0)]
    sizes = [path.stat().st_size for path in sorted(project.logs.glob("part-*"))]
    # A record has the bytes of its line, without the end.
    assert [
        ledger[source].read.bytes + n for source, n in zip(SOURCES, counts, strict=True)
    ] == sizes
    assert project.build()["verdict"] == "identical"


def test_lines_of_json_have_positions_and_digest_of_plain_lines(tmp_path):
    plain = make_row_project(tmp_path / "lines", "lines")
    typed = make_row_project(tmp_path / "json", "json")
    assert plain.build()["content_digest"] == typed.build()["content_digest"]
    assert plain.version().manifest.ledger == typed.version().manifest.ledger


@pytest.mark.parametrize("file_format", TEXT)
@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_and_landed_lines_give_the_same_samples(
    tmp_path, from_parquet, file_format, suffix
):
    project = make_row_project(tmp_path, file_format, counts=(100, 40))
    for path in project.logs.glob("part-*"):
        pack = gzip.compress if suffix == "gz" else cramjam.zstd.compress
        path.with_name(f"{path.name}.{suffix}").write_bytes(bytes(pack(path.read_bytes())))
        path.unlink()
    project.build()
    assert samples(project) == from_parquet[0]
    project.edit("wait: 36500d", "wait: 36500d, land: true")
    landed = project.elsewhere("landed")
    landed.build()
    assert landed.version().manifest.content_digest == project.version().manifest.content_digest


def test_tasks_in_the_middle_of_a_file_have_its_header_from_the_plan(tmp_path):
    project = make_row_project(tmp_path, "csv")
    project.edit("64MiB", "300B")
    found = load_plan(project.folder, plan(project.spec, project.interval(), project.env).ref)
    planned = found.inputs[SOURCES[0]]
    assert sum(piece.source == SOURCES[0] for piece in found.ranges) > 5
    assert (planned.kind, kept_layouts(project.folder, planned)) == (None, None)
    headers = kept_headers(project.folder, planned).files
    assert headers[SOURCES[0]].columns == ("note", "value", "copies", "name")
    assert headers[SOURCES[2]].columns == ()
    project.folder.layouts(planned.layouts).unlink()
    with pytest.raises(NotFoundError, match="are missing"):
        kept_headers(project.folder, planned.model_copy(update={"layouts": "0" * 64}))


BROKEN = {
    "csv": [
        b"x,1.5.2,1,a", b"x,1,1.0,a", b"x,1,99999999999999999999,a", b"x,1e400,1,a", b"x,1,1",
        b"x,1,1,a,b", b"", b'x,1,1,a"b"c', b"x,1,1,\xff", b'x,"",1,a', b"x,1,1,a\rb",
    ],
    "json": [
        b'{"value": "1", "copies": 1, "name": "a"}', b'{"value": 1, "copies": 1.5, "name": "a"}',
        b'{"value": 1, "copies": 1, "name": 5}', b"[1]", b"", b"{", b'{"value": NaN}',
        b'{"value": 1, "copies": 99999999999999999999}', b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
    ],
}  # fmt: skip


@pytest.mark.parametrize("split", ["64MiB", "70B"])
@pytest.mark.parametrize("file_format", TEXT)
def test_a_line_that_does_not_fit_is_quarantined_and_no_neighbour_notices(
    tmp_path, file_format, split
):
    project = make_row_project(tmp_path, file_format, counts=(40, 0))
    project.edit("64MiB", split)
    project.build()
    alone = samples(project)
    before = [record.offset for record in raw_records(kept(project))]
    path = project.logs / "part-0"
    lines = path.read_bytes().split(b"\n")
    broken, places = BROKEN[file_format], {}
    for number, line in enumerate(broken):
        # Between whole ones: behind the header, the sixth line, and so on.
        lines.insert(1 + 4 * number, line)
    path.write_bytes(b"\n".join(lines))
    for line in broken:
        places[path.read_bytes().index(b"\n" + line + b"\n") + 1] = line
    os.utime(path, (0, 0))
    other = project.elsewhere("other")
    other.build()
    assert samples(other) == alone
    found = {record.offset: record for record in raw_records(kept(other))}
    ours = {offset: each.raw for offset, each in found.items() if each.reason != "no_value"}
    assert ours == places
    assert len(found) == len(before) + len(broken)
    assert {found[place].reason for place in places} == {
        "bad_value", "bad_line" if file_format == "csv" else "not_json"
    }  # fmt: skip
    assert [*found] == sorted(found)


def test_the_message_of_a_wrong_value_names_the_field(tmp_path):
    project = make_row_project(tmp_path, "csv", counts=(0,))
    (project.logs / "part-0").write_text("name,value,copies\na,much,1\n")
    project.build()
    (record,) = raw_records(kept(project))
    assert (record.offset, record.raw) == (18, b"a,much,1")
    assert record.message == "value: expected float64, got 'much'"


@pytest.mark.parametrize("split", ["64MiB", "70B"])
def test_a_line_break_within_quotes_stops_the_build_with_its_position(tmp_path, split):
    project = make_row_project(tmp_path, "csv", counts=(40, 30))
    project.edit("64MiB", split)
    path = project.logs / "part-1"
    data = path.read_bytes()
    place = data.index(b"\n", 600) + 1
    # The second and third line of this record look like records.
    more = b'"begin\n"",7,1,""\n"",8,1,""\nend",1,1,"a"\n'
    path.write_bytes(data[:place] + more + data[place:])
    with pytest.raises(FormatError, match=r"odd number of quotes.*quote: null") as refused:
        project.build()
    assert (refused.value.path, refused.value.offset_bytes) == (SOURCES[1], place)
    assert not list(project.folder.path.glob("versions/*"))


def test_tabs_other_quotes_and_words_for_nothing_are_settings(tmp_path):
    project = make_row_project(tmp_path, "csv", counts=(0,))
    project.edit(
        "format: csv", "format: csv, csv: {delimiter: \"\\t\", quote: null, nulls: [NA, '\\N']}"
    )
    lines = ["name\tvalue\tcopies", '5" disk\t1\t1', "NA\t\\N\t1", "\t3\t1", "x\tNaN\t1"]
    (project.logs / "part-0").write_text("\ufeff" + "\r\n".join(lines))
    project.edit('n + len(row["name"])', 'n + len(row["name"] or "")', "preprocess.py")
    report = project.build()
    assert report["quarantined"] == 1
    assert [label for _, label in samples(project)] == [0, 1, 7] or report["samples"] == 3


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("note,value,copies", r"part-0 in every file .* another in .*part-1: it lacks 'name'"),
        ("note,value,copies,name,more", "it has 'more' besides"),
        ("value,note,copies,name", "the columns have another order"),
        ("note,value,copies,name,name", "it names 'name' twice"),
        ('note,value,"copies,name', "an odd number of quotes"),
    ],
)
def test_a_file_with_another_header_is_named_with_the_first(tmp_path, header, message):
    project = make_row_project(tmp_path, "csv", counts=(10, 0))
    (project.logs / "part-1").write_text(f"{header}\nx,1,1,a\n")
    with pytest.raises(FormatError, match=message) as refused:
        project.build()
    assert "part-1" in str(refused.value)
    assert not list(project.folder.path.glob("plans/*/*"))


def test_fields_that_the_header_lacks_are_named_with_those_that_are_near(tmp_path):
    project = make_row_project(tmp_path, "csv")
    project.edit("copies: int64", "copy: int64")
    with pytest.raises(ConfigError, match=r"the fields 'copy' .* got 'copies'"):
        project.build()
    (project.logs / "part-0").write_text("a;value;copies;name\n")
    (project.logs / "part-1").unlink()
    with pytest.raises(ConfigError, match=r"is csv.delimiter, ',', right\?"):
        project.build()


@pytest.mark.parametrize("file_format", TEXT)
def test_quarantined_lines_are_previewed_and_replayed_with_their_fields(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format)
    project.edit("64MiB", "300B")
    project.build()
    number = project.version().manifest.quarantine["records"]
    project.edit(
        'raise Reject("no_value", "expected a value")', 'row["value"] = 0.5', "preprocess.py"
    )
    report = preview_quarantine(project.spec, project.env, kept(project), limit=100)
    assert (report.quarantined, report.valid) == (number, number)
    other = project.elsewhere("other")
    other.build()
    report = project.build(replay=True)
    assert (report["generation"], report["quarantined"]) == ("g0002", 0)
    mine, others = project.version().manifest, other.version().manifest
    assert (mine.content_digest, mine.ledger) == (others.content_digest, others.ledger)


@pytest.mark.parametrize("file_format", TEXT)
def test_a_look_shows_the_first_lines_with_their_fields(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format, counts=(100, 40))
    for path in [*project.logs.iterdir(), project.logs]:
        os.utime(path, (0, 0))
    found = preview(project.spec, project.interval(), project.env, limit=20)
    assert found["records"] == 20 + (2 if file_format == "csv" else 0)
    assert found["quarantined"] == {"no_value": 2}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_headers_are_no_part_of_what_a_preview_is_limited_to(tmp_path, suffix):
    project = make_row_project(tmp_path, "csv", counts=(10, 10, 0))
    for path in project.logs.glob("part-*"):
        if suffix:
            path.with_name(path.name + suffix).write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    found = preview(project.spec, project.interval(), project.env, limit=2)
    assert found["filtered"] == {"header": 2}
    assert (found["records"], sum(found["samples"].values())) == (4, 2)


@pytest.mark.parametrize("file_format", TEXT)
def test_lines_that_are_too_long_are_quarantined_as_such(tmp_path, file_format):
    project = make_row_project(tmp_path, file_format, counts=(0,))
    found = [{"value": 1.0, "copies": 1, "name": "x" * length} for length in (3, 300, 4)]
    text = csv_of(found)
    if file_format == "json":
        text = "".join(json.dumps(row) + "\n" for row in found)
    (project.logs / "part-0").write_text(text)
    project.edit("wait: 36500d", "wait: 36500d, max_line_bytes: 100B, long_lines: quarantine")
    project.build()
    assert project.version().manifest.quarantine["reasons"] == {"line_too_long": 1}
    assert [label for _, label in samples(project)] == [3, 4]


def test_a_file_of_another_kind_says_which_format_to_set(tmp_path):
    project = make_row_project(tmp_path, "csv", counts=(10,))
    (project.logs / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(FormatError, match="say format: parquet"):
        project.build()
    (project.logs / "rows.parquet").rename(project.logs / "part-1")
    with pytest.raises(FormatError):
        project.build()


def test_other_fields_are_another_data_set(tmp_path):
    project = make_row_project(tmp_path, "csv", counts=(20,))
    project.build()
    project.edit("value: float64", "note: str, value: float64")
    assert project.build(rebuild="one more field")["generation"] == "g0002"
    assert next(rows(0, 1))["value"] == 0.0
