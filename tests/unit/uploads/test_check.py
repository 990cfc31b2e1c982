"""The check of uploads: receipts in an order, refusals with reasons, and bytes that are kept."""

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.processes import LIMIT_S
from tests.unit.uploads.labelled import DAY, csv_of, jsonl_of, parquet_of
from trainfeed.core import faults
from trainfeed.errors import ChecksumError, ConfigError, FormatError, NotFoundError
from trainfeed.uploads import applied_uploads, check_uploads
from trainfeed.uploads.check import short_reason
from trainfeed.uploads.files import found_uploads

ROOT = Path(__file__).parents[3]
ROWS = [(1, 0, "a"), (2, 1, None), (3, 1, "ü")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("labels.csv", csv_of(ROWS)),
        ("labels.jsonl", jsonl_of(ROWS)),
        ("labels.parquet", parquet_of(ROWS)),
    ],
)
def test_a_right_file_gets_a_receipt_and_its_bytes_are_kept(labelled, name, data):
    labelled.put(name, data)
    report = labelled.check()
    (receipt,) = report.accepted
    sha256 = hashlib.sha256(data).hexdigest()
    assert (receipt.number, receipt.name, receipt.sha256) == (1, f"{DAY}/{name}", sha256)
    assert (receipt.rows, receipt.keys, receipt.interval) == (3, 3, DAY)
    assert report.intervals == (DAY,)
    assert labelled.book.content(sha256).read_bytes() == data
    assert labelled.check().accepted == ()
    assert labelled.book.receipts() == [receipt]
    assert not list((labelled.folder.staging / "tmp").glob("*"))


def test_kept_bytes_are_readable_for_every_account_as_receipts_are(labelled):
    labelled.put("labels.csv", csv_of(ROWS))
    previous = os.umask(0o077)
    try:
        (receipt,) = labelled.check().accepted
    finally:
        os.umask(previous)
    for path in (labelled.book.content(receipt.sha256), labelled.folder.receipts / "00000001.json"):
        assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_end_of_a_line_completes_the_last_line(labelled, end):
    labelled.put("labels.csv", b"id,label" + end + b"1,1" + end)
    assert len(labelled.check().accepted) == 1


def test_new_files_of_one_check_are_numbered_in_order_of_their_names_whatever_their_times(labelled):
    for age, name in enumerate(["c.csv", "a.csv", "b.csv"]):
        path = labelled.put(name, csv_of([(age, 0, None)]))
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert [receipt.name[-5:] for receipt in labelled.check().accepted] == [
        "a.csv",
        "b.csv",
        "c.csv",
    ]
    labelled.put("0.csv", csv_of([(9, 0, None)]))
    assert labelled.check().accepted[0].number == 4


WRONG = {
    "bad-type.csv": (b"id,label\nx,1\n", "line 2"),
    "fraction.csv": (b"id,label\n1,0.5\n", "label"),
    "large.csv": (b"id,label\n1,300\n", "label"),
    "no-key.csv": (b"label\n1\n", "id"),
    "no-label.csv": (b"id\n1\n", "label"),
    "unknown-column.csv": (b"id,label,who\n1,1,me\n", "who"),
    "short-row.csv": (b"id,label\n1\n", "expected 2 cells, got 1"),
    "empty-cell.csv": (b"id,label\n1,\n", "line 2"),
    "empty.csv": (b"", "header"),
    "no-rows.csv": (b"id,label\n", "at least one row"),
    "nul.csv": (b"id,label\n1,1\0\n", "NUL at byte 12"),
    "utf16.csv": ("id,label\n1,1\n".encode("utf-16"), "NUL at byte 3"),
    "latin1.csv": (b"id,label,note\n1,1,\xfc\n", "UTF-8"),
    "semicolons.csv": (b"id;label\n1;1\n", "expected the columns"),
    "two-labels.csv": (
        b"id,label\n7,1\n8,0\n7,0\n",
        "one key and different labels, {'label': 1, 'note': None} and {'label': 0",
    ),
    "cut.csv": (b"id,label\n1,1\n2,1", "newline at the end of the last line, got none behind 16"),
    "cut.jsonl": (b'{"id": 1, "label": 1}\n{"id": 2, "la', "end of the last line"),
    "cut-behind-a-value.jsonl": (b'{"id": 1, "label": 1}', "end of the last line"),
    "broken.jsonl": (b'{"id": 1, "label": 1}\n{"id": 2, "la\n', "line 2"),
    "text-number.jsonl": (b'{"id": "1", "label": 1}\n', "id"),
    "bool.jsonl": (b'{"id": true, "label": 1}\n', "id"),
    "null-key.jsonl": (b'{"id": null, "label": 1}\n', "id"),
    "twice.jsonl": (b'{"id": 1, "id": 2, "label": 1}\n', "twice"),
    "nul.jsonl": (b'{"id": 1, "label": 1, "note": "a\\u0000b"}\n', "row 1: field 'note'"),
    "no.parquet": (b"PAR1 no such thing", "damaged"),
    "null.parquet": (parquet_of([(1, None, None)]), "row 1"),
    "float.parquet": (parquet_of([(1, 0.5, "")], (pa.int64(), pa.float64(), pa.utf8())), "row 1"),
    "labels.txt": (b"id,label\n1,1\n", ".csv, .jsonl, .parquet"),
    "labels.csv.gz": (b"id,label\n1,1\n", ".csv, .jsonl, .parquet"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_the_reason_and_stays_where_it_is(labelled, name):
    data, reason = WRONG[name]
    path = labelled.put(name, data)
    report = labelled.check()
    assert report.accepted == ()
    (refusal,) = report.refused
    assert refusal.name == f"{DAY}/{name}"
    assert reason in refusal.reason
    assert str(labelled.folder.staging) not in refusal.reason
    assert path.read_bytes() == data
    assert applied_uploads(labelled.folder, DAY) == []
    assert not list((labelled.folder.staging / "tmp").glob("*"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("number.csv", b"id,label\n1,%s\n"),
        ("header.csv", b"id,%s\n1,1\n"),
        ("quote.csv", b"id,label\n1,it's \\ %s\n"),
        ("two-labels.csv", b"id,label,note\n1,1,%s\n1,1,other\n"),
        ("text.jsonl", b'{"id": 1, "label": "%s"}\n'),
        ("unknown.jsonl", b'{"id": 1, "%s": 1}\n'),
        ("bytes.csv", b"id,label\n%s\xff,1\n"),
    ],
)
def test_a_refusal_quotes_at_most_20_characters_of_a_cell(labelled, name, data):
    person = b"Ada Lovelace, 12 St James's Square, London SW1Y 4JH".replace(b",", b"")
    labelled.put(name, data % person)
    (reason,) = labelled.refused().values()
    assert "Square" not in reason
    assert "4JH" not in reason


def test_a_refusal_keeps_the_names_of_fields_and_its_advice():
    name = "a_field_with_a_name_of_many_characters"
    message = f"line 2: field '{name}': can't take 'a b c d e f g h i j k l m'; remove 'x' there"
    assert short_reason(message, [name]) == (
        f"line 2: field '{name}': can't take 'a b c d e f g h i j …'; remove 'x' there"
    )


def test_a_refused_file_is_read_again_only_when_it_has_changed(labelled):
    path = labelled.put("labels.csv", b"id,label\nx,1\n")
    first = labelled.check().refused
    assert labelled.check().refused == first
    path.write_bytes(b"id,label\n1,1\n")
    report = labelled.check()
    assert (report.refused, len(report.accepted)) == ((), 1)
    assert labelled.book.refusals() == []


def test_a_refused_file_is_read_again_under_another_schema(labelled):
    labelled.put("labels.csv", b"id,label\n1,300\n")
    assert labelled.refused()
    labelled.edit("dtype: int8", "dtype: int16")
    assert len(labelled.check().accepted) == 1


def test_the_refusal_of_a_file_that_is_gone_is_removed(labelled):
    labelled.put("other.csv", b"id,label\nx,1\n")
    assert list(labelled.refused()) == [f"{DAY}/other.csv"]
    (labelled.folder.uploads / DAY / "other.csv").unlink()
    assert labelled.refused() == {}
    assert labelled.book.refusals() == []


def test_unfinished_names_are_ignored(labelled):
    for name in (".labels.csv", "_labels.csv", "labels.csv.tmp", "labels.csv~"):
        labelled.put(name, b"half a file")
    (labelled.folder.uploads / ".hidden").mkdir()
    (labelled.folder.uploads / ".hidden/labels.csv").write_bytes(csv_of(ROWS))
    report = labelled.check()
    assert (report.accepted, report.refused) == ((), ())


def test_what_is_no_file_of_an_interval_is_refused(labelled, caplog):
    labelled.put("labels.csv", csv_of(ROWS), day="2024-03-41")
    labelled.put("labels.csv", csv_of(ROWS), day="2023-01-01")
    folder = labelled.folder.uploads
    (folder / "labels.csv").write_bytes(csv_of(ROWS))
    (folder / DAY / "deeper").mkdir(parents=True)
    (folder / DAY / "link.csv").symlink_to(folder / "labels.csv")
    (folder / "2024-03-02").symlink_to(folder / DAY)
    os.mkfifo(folder / DAY / "pipe.csv")
    (folder / DAY / "new\nline.csv").write_bytes(csv_of(ROWS))
    Path(os.fsdecode(os.fsencode(folder / DAY) + b"/\xff.csv")).write_bytes(csv_of(ROWS))
    refused = labelled.refused()
    assert labelled.book.receipts() == []
    assert len(refused) == 9
    assert "a folder" in refused[f"{DAY}/deeper"]
    assert "a symbolic link" in refused[f"{DAY}/link.csv"]
    assert "a symbolic link" in refused["2024-03-02"]
    assert "a pipe" in refused[f"{DAY}/pipe.csv"]
    assert "printable" in refused[f"{DAY}/new\nline.csv"]
    assert "name of its interval" in refused["labels.csv"]
    assert "before the first interval" in refused["2023-01-01/labels.csv"]
    # A name cannot begin a line of the log, nor stop a log that is written as UTF-8.
    assert len(caplog.messages) == 9
    assert all(message.isprintable() for message in caplog.messages)


def test_a_folder_that_is_exchanged_for_a_link_after_the_list_gives_no_files_of_others(
    labelled, tmp_path, monkeypatch
):
    labelled.put("labels.csv", csv_of(ROWS))
    foreign(tmp_path)
    place = labelled.folder.uploads / DAY

    def exchange_then(*arguments):
        files = list(found_uploads(*arguments))
        place.rename(tmp_path / "away")
        place.symlink_to(tmp_path / "foreign")
        return files

    monkeypatch.setattr("trainfeed.uploads.check.found_uploads", exchange_then)
    report = labelled.check()
    assert report.accepted == ()
    assert "expected a folder of uploads, got a link" in report.refused[0].reason
    assert "secret" not in report.refused[0].reason


def test_a_folder_that_is_exchanged_for_a_link_after_the_receipt_stops_the_build(
    labelled, tmp_path
):
    labelled.put("labels.csv", csv_of(ROWS))
    labelled.check()
    foreign(tmp_path)
    (labelled.folder.uploads / DAY).rename(tmp_path / "away")
    (labelled.folder.uploads / DAY).symlink_to(tmp_path / "foreign")
    with pytest.raises(FormatError, match="expected a folder of uploads, got a link"):
        applied_uploads(labelled.folder, DAY)


def test_a_link_in_the_place_of_all_uploads_is_an_error_and_no_file_below_is_read(
    labelled, tmp_path
):
    foreign(tmp_path / "places").rename(tmp_path / "places" / DAY)
    labelled.folder.path.mkdir(parents=True)
    labelled.folder.uploads.symlink_to(tmp_path / "places")
    with pytest.raises(FormatError, match="expected a folder of uploads, got a link"):
        labelled.check()
    assert labelled.book.receipts() == []


def foreign(place):
    """Make a folder of another person, with a file that is right as an upload."""
    (place / "foreign").mkdir(parents=True)
    (place / "foreign/labels.csv").write_bytes(csv_of([(1, 0, "secret")]))
    return place / "foreign"


def test_a_file_above_the_size_limit_is_refused(labelled):
    labelled.edit("defaults: {label: -1}", "defaults: {label: -1}, max_file_bytes: 1KiB")
    labelled.put("large.csv", csv_of([(number, 0, None) for number in range(1000)]))
    labelled.put("small.csv", csv_of(ROWS))
    assert "uploads.max_file_bytes = 1024" in labelled.refused()[f"{DAY}/large.csv"]
    assert len(labelled.book.receipts()) == 1


def test_labels_that_do_not_fit_the_memory_are_refused_with_the_setting(labelled):
    labelled.edit("output:", "resources: {memory_bytes: 1MiB}\noutput:")
    labelled.put("large.csv", csv_of([(number, 0, None) for number in range(20_000)]))
    assert "resources.memory_bytes = 1048576" in labelled.refused()[f"{DAY}/large.csv"]


def test_equal_rows_of_one_key_count_once(labelled):
    labelled.put("labels.csv", csv_of([*ROWS, *ROWS, ROWS[0]]))
    (receipt,) = labelled.check().accepted
    assert (receipt.rows, receipt.keys) == (7, 3)


def test_a_file_that_changed_after_its_receipt_is_never_taken(labelled):
    path = labelled.put("labels.csv", csv_of(ROWS))
    labelled.check()
    old = path.read_bytes()
    labelled.put("labels.csv", csv_of(ROWS[:1]))
    report = labelled.check()
    assert report.accepted == ()
    assert "changed after receipt 1" in report.refused[0].reason
    with pytest.raises(ChecksumError, match="changed after receipt 1"):
        applied_uploads(labelled.folder, DAY)
    path.write_bytes(old)
    assert labelled.check().refused == ()
    assert len(applied_uploads(labelled.folder, DAY)) == 1


def test_a_removed_file_still_counts_from_its_kept_bytes(labelled):
    labelled.put("labels.csv", csv_of(ROWS))
    labelled.check()
    (labelled.folder.uploads / DAY / "labels.csv").unlink()
    (upload,) = applied_uploads(labelled.folder, DAY)
    labelled.book.content(upload.sha256).unlink()
    with pytest.raises(NotFoundError, match="kept bytes"):
        applied_uploads(labelled.folder, DAY)


def test_a_damaged_or_missing_receipt_is_an_error(labelled):
    for name in ("a.csv", "b.csv"):
        labelled.put(name, csv_of(ROWS))
    labelled.check()
    first = labelled.folder.receipts / "00000001.json"
    data = first.read_bytes()
    first.write_bytes(data.replace(b'"rows":3', b'"rows":4'))
    with pytest.raises(ChecksumError):
        applied_uploads(labelled.folder, DAY)
    first.unlink()
    with pytest.raises(FormatError, match="number 1 is missing"):
        applied_uploads(labelled.folder, DAY)
    assert "number 1 is missing" in labelled.check().damaged[0]


def test_two_checks_at_once_give_every_file_one_receipt(labelled):
    for number in range(12):
        labelled.put(f"{number:02d}.csv", csv_of([(number, 1, None)]))
    start, reports = threading.Barrier(4), []

    def check():
        start.wait()
        reports.append(check_uploads(labelled.spec, labelled.folder))

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    receipts = labelled.book.receipts()
    assert [receipt.number for receipt in receipts] == list(range(1, 13))
    assert len({receipt.name for receipt in receipts}) == 12
    accepted = [receipt for report in reports for receipt in report.accepted]
    assert sorted(accepted, key=lambda receipt: receipt.number) == receipts


@pytest.mark.parametrize(
    "point", ["uploads.after_copy", "uploads.after_content", "uploads.after_receipt"]
)
def test_a_check_that_was_killed_is_completed_by_the_next(labelled, point):
    for name in ("a.csv", "b.csv"):
        labelled.put(name, csv_of(ROWS))
    killed = _check_in_process(labelled, point)
    assert killed.returncode == -9, killed.stderr
    labelled.check()
    receipts = labelled.book.receipts()
    assert [receipt.name for receipt in receipts] == [f"{DAY}/a.csv", f"{DAY}/b.csv"]
    assert len(applied_uploads(labelled.folder, DAY)) == 2


def test_a_refusal_that_was_killed_is_completed_by_the_next_check(labelled):
    labelled.put("a.csv", b"id,label\nx,1\n")
    assert _check_in_process(labelled, "uploads.after_refusal").returncode == -9
    assert list(labelled.refused()) == [f"{DAY}/a.csv"]


def test_a_data_set_without_the_part_takes_no_uploads(labelled):
    labelled.edit(
        "uploads: {key: [id], labels: [label, note], join: left, defaults: {label: -1}}", ""
    )
    with pytest.raises(ConfigError, match="takes no uploads"):
        labelled.check()


def _check_in_process(labelled, point):
    code = (
        "import sys; from trainfeed.specification import load_spec;"
        "from trainfeed.versions import DatasetFolder; from trainfeed.uploads import check_uploads;"
        "check_uploads(load_spec(sys.argv[1]), DatasetFolder(sys.argv[2], 'clicks'))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(labelled.env.datasets / "clicks"), labelled.env.root],
        env={"PYTHONPATH": str(ROOT / "include"), faults.VARIABLE: f"{point}:kill"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
