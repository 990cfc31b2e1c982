"""``process_base64``: equal files out of all rows, and inputs that stay as they were."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.conversion import ConvertOptions, process_base64
from trainfeed.conversion.base64_files import BadRow, GoodRow, parse_row
from trainfeed.core import faults
from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError


def image(number):
    return base64.b64encode(f"image {number}".encode())


def row(number):
    return b"%s\t%d" % (image(number), number)


@pytest.fixture
def data(tmp_path):
    """Make a folder: rows per file → the folder with its list."""

    def make(*files):
        for number, rows in enumerate(files):
            (tmp_path / f"dataset.part{number}").write_bytes(b"".join(r + b"\n" for r in rows))
        names = "".join(f"dataset.part{number}\n" for number in range(len(files)))
        (tmp_path / "file_list.txt").write_text(names)
        return tmp_path

    return make


def rank_rows(folder, nranks):
    return [(folder / f"base64_rank_{r}").read_bytes().splitlines() for r in range(nranks)]


@pytest.mark.parametrize(
    ("samples", "nranks", "per_rank"),
    [(8, 4, 2), (10, 4, 3), (3, 8, 1), (1, 1, 1), (1, 5, 1), (7, 7, 1), (100, 3, 34)],
)
def test_every_rank_gets_the_same_number_and_every_row_is_there(data, samples, nranks, per_rank):
    folder = data([row(n) for n in range(samples)])
    report = process_base64(folder, "file_list.txt", nranks)
    ranks = rank_rows(folder, nranks)
    assert [len(rows) for rows in ranks] == [per_rank] * nranks
    counts = Counter(line for rows in ranks for line in rows)
    assert set(counts) == {row(n) for n in range(samples)}
    assert max(counts.values()) - min(counts.values()) <= 1
    assert report.num_padded == per_rank * nranks - samples
    assert (folder / "file_list.txt").read_text().split() == list(report.files)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60), st.integers(1, 70), st.integers(), st.integers(1, 3))
def test_before_padding_the_rows_are_a_permutation(tmp_path_factory, n, nranks, seed, num_files):
    folder = tmp_path_factory.mktemp("data")
    for number in range(num_files):
        rows = b"".join(row(i) + b"\n" for i in range(n) if i % num_files == number)
        (folder / f"part{number}").write_bytes(rows)
    (folder / "list").write_text("\n".join(f"part{i}" for i in range(num_files)))
    process_base64(folder, "list", nranks, seed=seed)
    lines = [line for rows in rank_rows(folder, nranks) for line in rows]
    assert Counter(lines[:n]) == Counter(row(i) for i in range(n))
    # Padding is the shuffled order again, from its start.
    assert lines[n:] == [lines[i % n] for i in range(len(lines) - n)]


def test_the_shuffle_goes_over_all_files_and_depends_on_the_seed(data):
    folder = data([row(n) for n in range(50)], [row(n) for n in range(50, 100)])
    orders = {}
    for seed in (0, 1, 0):
        process_base64(folder, "file_list.txt", 2, seed=seed)
        orders.setdefault(seed, []).append(rank_rows(folder, 2))
    assert orders[0][0] == orders[0][1] != orders[1][0]
    first = {int(line.split(b"\t")[1]) for line in orders[0][0][0]}
    assert 10 < len(first & set(range(50))) < 40


def test_memory_does_not_change_the_files(data):
    folder = data([row(n) for n in range(5000)])
    process_base64(folder, "file_list.txt", 3)
    expected = rank_rows(folder, 3)
    options = ConvertOptions(memory_bytes=1 << 16)
    process_base64(folder, "file_list.txt", 3, options=options)
    assert rank_rows(folder, 3) == expected


def test_inputs_are_never_changed_and_a_rerun_starts_from_them(data):
    folder = data([row(n) for n in range(10)], [row(n) for n in range(10, 13)])
    before = {p.name: p.read_bytes() for p in folder.glob("dataset.*")}
    listed = (folder / "file_list.txt").read_bytes()
    process_base64(folder, "file_list.txt", 8)
    process_base64(folder, "file_list.txt", 2)
    assert {p.name: p.read_bytes() for p in folder.glob("dataset.*")} == before
    assert (folder / "file_list.txt.source").read_bytes() == listed
    # Neither padding nor ranks of the first run are left.
    assert sorted(p.name for p in folder.glob("base64_rank_*")) == [
        "base64_rank_0",
        "base64_rank_1",
    ]
    lines = [line for rows in rank_rows(folder, 2) for line in rows]
    assert set(lines) == {row(n) for n in range(13)}
    assert len(lines) == 14


def test_both_column_orders_make_the_same_row(data):
    folder = data([image(7) + b"\t7", b"8\t" + image(8), b" 009\t" + image(9) + b"\r"])
    process_base64(folder, "file_list.txt", 1)
    assert sorted(rank_rows(folder, 1)[0]) == sorted([row(7), row(8), row(9)])


def test_two_columns_that_could_be_either_are_read_as_documented():
    assert parse_row(b"1234\t5678") == GoodRow(b"1234", 5678)
    # Three digits are no base64.
    assert parse_row(b"123\t5678") == GoodRow(b"5678", 123)


BAD = {
    "nothing beside it": b"aGVsbG8=",
    "three columns": b"aGVsbG8=\t1\t2",
    "no label": b"aGVsbG8=\taGVsbG8=",
    "a fraction": b"aGVsbG8=\t1.5",
    "too large for int64": b"aGVsbG8=\t9223372036854775808",
    "no base64": b"not base64!\t1",
    "cut base64": b"aGVsbG8\t1",
    "urlsafe base64": b"_-_-\t1",
    "an empty image": b"\t1",
    "an empty label": b"aGVsbG8=\t",
    "control characters": b"\x1b[31m\x00\t1",
    "not UTF-8": b"\xff\xfe\t1",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_row_goes_to_the_quarantine(data, bad):
    assert isinstance(parse_row(bad), BadRow)
    folder = data([row(1), bad, row(2)])
    report = process_base64(folder, "file_list.txt", 1)
    assert (report.num_samples, report.num_quarantined) == (2, 1)
    (entry,) = map(json.loads, (folder / "base64_quarantine.jsonl").read_text().splitlines())
    assert (entry["file"], entry["line"]) == ("dataset.part0", 2)
    assert entry["reason"]
    # The quarantine of a run that had bad rows is no part of the next one's result.
    (folder / "dataset.part0").write_bytes(row(1) + b"\n")
    process_base64(folder, "file_list.txt", 1)
    assert not (folder / "base64_quarantine.jsonl").exists()


def test_blank_lines_and_a_cut_line_without_end_are_no_matter(data):
    folder = data([])
    (folder / "dataset.part0").write_bytes(b"\n" + row(1) + b"\n  \n\n" + row(2))
    report = process_base64(folder, "file_list.txt", 1)
    assert (report.num_samples, report.num_quarantined) == (2, 0)


def test_a_line_without_end_takes_bounded_memory(data, monkeypatch):
    monkeypatch.setattr(
        "trainfeed.conversion.foreign_input.iter_lines.__kwdefaults__", {"max_line_bytes": 1000}
    )
    folder = data([row(1), b"A" * 3_000_000 + b"\t5", row(2)])
    report = process_base64(folder, "file_list.txt", 1)
    assert (report.num_samples, report.num_quarantined) == (2, 1)


@pytest.mark.parametrize("rows", [[], [b"no row at all"]], ids=["no rows", "only bad rows"])
def test_without_a_good_row_nothing_is_changed(data, rows):
    folder = data([row(1)])
    process_base64(folder, "file_list.txt", 2)
    (folder / "file_list.txt").write_text("dataset.part0\n")
    (folder / "dataset.part0").write_bytes(b"".join(r + b"\n" for r in rows))
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(FormatError, match="at least one row"):
        process_base64(folder, "file_list.txt", 2)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "a//b", "."])
def test_names_that_lead_out_of_the_folder_are_refused(data, name):
    folder = data([row(1)])
    (folder / "file_list.txt").write_text(name + "\n")
    with pytest.raises(ConfigError, match="line 1"):
        process_base64(folder, "file_list.txt", 1)


def test_a_file_that_is_listed_twice_is_refused(data):
    folder = data([row(1)])
    (folder / "file_list.txt").write_text("dataset.part0\ndataset.part0\n")
    with pytest.raises(ConfigError, match="twice"):
        process_base64(folder, "file_list.txt", 1)


def test_a_list_of_results_without_sources_is_refused(data):
    folder = data([row(1)])
    process_base64(folder, "file_list.txt", 1)
    (folder / "file_list.txt.source").unlink()
    with pytest.raises(ConfigError, match="list the source files"):
        process_base64(folder, "file_list.txt", 1)
    (folder / "file_list.txt").write_text("dataset.part0\nbase64_rank_0\n")
    with pytest.raises(ConfigError, match="name of a result"):
        process_base64(folder, "file_list.txt", 1)


@pytest.mark.parametrize("nranks", [0, -1, 100_001, True, 1.5])
def test_odd_numbers_of_ranks_are_refused(data, nranks):
    with pytest.raises(ConfigError, match="nranks"):
        process_base64(data([row(1)]), "file_list.txt", nranks)


def test_what_is_no_file_is_refused_at_once(data):
    folder = data([row(1)])
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    for name in ("folder", "pipe", "zero"):
        (folder / "file_list.txt").write_text(f"{name}\n")
        with pytest.raises(FormatError, match="plain file"):
            process_base64(folder, "file_list.txt", 1)
    (folder / "file_list.txt").write_text("gone\n")
    with pytest.raises(NotFoundError):
        process_base64(folder, "file_list.txt", 1)


def killed(point, folder, nranks):
    """Run the tool in a process that is killed at a point."""
    process = os.fork()
    if process == 0:
        with suppress(BaseException):
            os.environ[faults.VARIABLE] = f"{point}:kill"
            faults._plan.cache_clear()
            process_base64(folder, "file_list.txt", nranks)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert status == -signal.SIGKILL


BEFORE = ["base64.after_file", "convert.before_commit"]
DECIDED = ["convert.after_commit", "convert.after_move", "convert.before_manifest"]


@pytest.mark.parametrize("point", BEFORE + DECIDED)
def test_a_kill_leaves_inputs_and_a_list_that_the_next_run_understands(data, point):
    folder = data([row(n) for n in range(10)])
    killed(point, folder, 3)
    assert (folder / "file_list.txt").read_text() == "dataset.part0\n"
    report = process_base64(folder, "file_list.txt", 3)
    assert report.num_samples == 10
    left = {p.name for p in folder.iterdir() if p.name.startswith(".")}
    assert left == {".base64.lock"}


@pytest.mark.parametrize("point", [*DECIDED, "convert.before_cleanup"])
def test_what_was_decided_before_a_kill_is_carried_out_by_the_next_run_that_may_fail(data, point):
    folder = data([row(n) for n in range(10)] + [b"no row"])
    process_base64(folder, "file_list.txt", 5)
    killed(point, folder, 3)
    (folder / "dataset.part0").rename(folder / "gone")
    with pytest.raises(NotFoundError):
        process_base64(folder, "file_list.txt", 2)
    names = [f"base64_rank_{rank}" for rank in range(3)]
    assert (folder / "file_list.txt").read_text().split() == names
    assert sorted(p.name for p in folder.glob("base64_rank_*")) == names
    assert [len(rows) for rows in rank_rows(folder, 3)] == [4, 4, 4]
    assert (folder / "base64_quarantine.jsonl").exists()
    assert not (folder / ".base64.commit").exists()


def test_a_run_of_another_list_leaves_that_of_a_killed_one_at_its_sources(data):
    folder = data([row(n) for n in range(10)])
    (folder / "other.txt").write_text("none\n")
    killed("convert.after_move", folder, 3)
    with pytest.raises(NotFoundError):
        process_base64(folder, "other.txt", 2)
    assert (folder / "file_list.txt").read_text() == "dataset.part0\n"
    assert (folder / "other.txt").read_text() == "none\n"
    assert [len(rows) for rows in rank_rows(folder, 3)] == [4, 4, 4]


@pytest.mark.parametrize(
    "head", [b"[]", b"{}", b'{"list": null, "ranks": 10000000000, "bad_rows": false}']
)
def test_a_decision_that_this_tool_has_not_written_is_refused(data, head):
    folder = data([row(1)])
    (folder / ".base64.commit").mkdir()
    (folder / ".base64.commit" / "ranks.json").write_bytes(head)
    with pytest.raises(FormatError, match="list of rank files"):
        process_base64(folder, "file_list.txt", 1)


def test_a_folder_in_place_of_a_result_is_refused_and_nothing_changed(data):
    folder = data([row(n) for n in range(4)])
    (folder / "base64_rank_1").mkdir()
    with pytest.raises(ConflictError, match="base64_rank_1 is a folder; nothing was published"):
        process_base64(folder, "file_list.txt", 2)
    assert not (folder / "base64_rank_0").exists()
    assert (folder / "file_list.txt").read_text() == "dataset.part0\n"


def test_of_two_runs_at_once_one_result_is_whole(data):
    folder = data([row(n) for n in range(60)])
    runs = [partial(process_base64, folder, "file_list.txt", nranks) for nranks in (2, 3, 4, 5)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda run: run(), runs))
    listed = (folder / "file_list.txt").read_text().split()
    assert listed in [list(report.files) for report in reports]
    assert sorted(p.name for p in folder.glob("base64_rank_*")) == listed
    assert {line for rows in rank_rows(folder, len(listed)) for line in rows} == {
        row(n) for n in range(60)
    }
