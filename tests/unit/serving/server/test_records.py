"""Audit files of bounded size, rates per key, and metrics as text."""

import errno
import json
import os
import resource
import signal
from pathlib import Path

import pytest

from tests.unit.forks import in_a_fork
from trainfeed.serving.server import Metrics
from trainfeed.serving.server.audit import Audit, Summary
from trainfeed.serving.server.settings import Portions, Rates

# Days after which a full file beyond the number that is kept goes.
AT_ONCE = 1e-12


def test_a_full_audit_file_is_kept_under_a_number_and_the_oldest_goes(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=30, max_files=2, max_days=AT_ONCE)
    for number in range(10):
        audit.write({"number": number})
    audit.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ]
    files = Path(f"{path}.2"), Path(f"{path}.1"), path
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert [json.loads(line)["number"] for line in lines] == list(range(10))[-len(lines) :]
    assert all(file.stat().st_size <= 30 for file in files)


def test_full_files_that_are_young_are_kept_however_many_they_are(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=30, max_files=2, max_days=30)
    for number in range(40):
        audit.write({"number": number})
    kept = sorted(tmp_path.glob("audit.jsonl.*"), key=lambda each: -int(each.suffix[1:]))
    assert numbers_in(*kept, path) == list(range(40))
    for each in kept[:5]:
        os.utime(each, (0, 0))
    for number in range(40, 43):
        audit.write({"number": number})
    audit.close()
    kept = sorted(tmp_path.glob("audit.jsonl.*"), key=lambda each: -int(each.suffix[1:]))
    assert numbers_in(*kept, path) == list(range(43))[-len(numbers_in(*kept, path)) :]
    assert numbers_in(*kept, path)[0] == 10


def test_a_line_that_is_not_written_is_a_part_that_does_not_work(tmp_path):
    audit = Audit(tmp_path / "audit.jsonl", max_bytes=1000, max_files=2, max_days=1)
    good, audit._descriptor = audit._descriptor, os.open(tmp_path, os.O_RDONLY)
    audit.write({"who": "anna"})
    assert not audit.is_writable
    os.close(audit._descriptor)
    audit._descriptor = good
    audit.write({"who": "anna"})
    assert audit.is_writable
    audit.close()


class Lines(list):
    """An audit that keeps its lines."""

    def write(self, line):
        self.append(line)


def line(who="-", address="1.2.3.4", status=401, outcome="TokenRefused"):
    return {"who": who, "from": address, "status": status, "outcome": outcome,
            "bytes_in": 1, "bytes_out": 2}  # fmt: skip


def test_of_many_requests_of_a_kind_the_first_has_a_line_and_a_minute_the_number():
    now, lines = 0.0, Lines()
    summary = Summary(lines, lambda: "now", clock=lambda: now)
    for _ in range(1000):
        summary.add(line(), "requests")
    assert lines == [line()]
    now = 61.0
    summary.look()
    assert (lines[1]["count"], lines[1]["bytes_in"], lines[1]["bytes_out"]) == (999, 999, 1998)
    summary.look()
    assert len(lines) == 2
    summary.add(line(), "requests")
    summary.flush()
    assert lines[2:] == [line()]


def test_the_number_of_lines_in_a_minute_is_bounded_and_no_request_is_left_out():
    now, lines = 0.0, Lines()
    summary = Summary(lines, lambda: "now", clock=lambda: now)
    for number in range(5000):
        summary.add(line(who=f"caller {number % 100}", address=str(number)), "requests")
    now = 61.0
    summary.look()
    assert len(lines) < 100
    assert sum(each.get("count", 1) for each in lines) == 5000


def test_who_holds_all_that_it_can_get_leaves_some_for_each_further_one():
    portions = Portions(64)
    taken = {}
    for name in "abcdef":
        while portions.take(name):
            taken[name] = taken.get(name, 0) + 1
    assert taken == {"a": 32, "b": 16, "c": 8, "d": 4, "e": 2, "f": 1}
    assert portions.take("g")
    assert not portions.take("h")
    for name, count in {**taken, "g": 1}.items():
        portions.give(name, count)
    assert portions.num_taken == 0
    assert portions.take("one", 1000)


def test_an_audit_goes_on_in_the_file_of_the_server_before(tmp_path):
    for number in range(2):
        audit = Audit(tmp_path / "audit.jsonl", max_bytes=1000, max_files=2, max_days=AT_ONCE)
        audit.write({"number": number})
        audit.close()
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 2


def test_a_line_that_cannot_be_written_is_counted_and_logged(tmp_path, caplog):
    audit = Audit(tmp_path / "audit.jsonl", max_bytes=1000, max_files=2, max_days=AT_ONCE)
    descriptor, audit._descriptor = audit._descriptor, os.open(tmp_path, os.O_RDONLY)
    audit.write({"who": "anna"})
    os.close(audit._descriptor)
    os.close(descriptor)
    assert audit.failures == 1
    assert '{"who":"anna"}' in caplog.text


def test_a_line_for_which_the_disk_has_no_room_is_no_part_of_a_line(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=1000, max_files=2, max_days=AT_ONCE)
    audit.write({"who": "anna"})

    def write():
        # The kernel takes what fits below the limit, and refuses the rest: as a disk that fills.
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5,) * 2)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        audit.write({"who": "ben"})
        assert audit.failures == 1

    assert in_a_fork(write) == 0
    audit.write({"who": "cleo"})
    audit.close()
    assert [json.loads(line)["who"] for line in path.read_text().splitlines()] == ["anna", "cleo"]


def numbers_in(*files):
    return [json.loads(line)["number"] for file in files for line in file.read_text().splitlines()]


def test_an_audit_file_that_another_program_removed_is_made_again(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=30, max_files=2, max_days=AT_ONCE)
    for number in range(4):
        audit.write({"number": number})
        path.unlink()
    for number in range(4, 6):
        audit.write({"number": number})
    audit.close()
    assert numbers_in(path) == [4, 5]
    assert audit.failures == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["audit.jsonl"]


def test_an_audit_file_that_another_program_renamed_is_left_and_a_new_one_is_begun(tmp_path):
    path, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl-20240301"
    audit = Audit(path, max_bytes=1000, max_files=2, max_days=AT_ONCE)
    audit.write({"number": 0})
    path.rename(moved)
    audit.write({"number": 1})
    audit.close()
    assert (numbers_in(moved), numbers_in(path)) == ([0], [1])


@pytest.mark.parametrize("refused", ["open", "replace"])
def test_a_rotation_that_fails_loses_no_line_and_no_kept_file(
    tmp_path, monkeypatch, caplog, refused
):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=30, max_files=2, max_days=AT_ONCE)
    for number in range(6):
        audit.write({"number": number})

    def fail(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(*((os, "open") if refused == "open" else (Path, "replace")), fail)
        for number in range(6, 12):
            audit.write({"number": number})
    kept = Path(f"{path}.2"), Path(f"{path}.1"), path
    assert numbers_in(*kept) == list(range(12))
    assert audit.failures == 0
    assert caplog.text.count("cannot begin a new file") == 1
    audit.write({"number": 12})
    audit.close()
    assert numbers_in(*kept) == list(range(2, 13))
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_rotation_that_fails_half_way_moves_each_kept_file_once(tmp_path, monkeypatch):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=30, max_files=3, max_days=AT_ONCE)
    for number in range(6):
        audit.write({"number": number})
    replace = Path.replace

    def fail_for_the_file(self, target):
        if self == path:
            raise OSError(errno.EIO, "Input/output error")
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail_for_the_file)
        for number in range(6, 12):
            audit.write({"number": number})
    audit.write({"number": 12})
    audit.close()
    kept = Path(f"{path}.3"), Path(f"{path}.2"), Path(f"{path}.1"), path
    assert numbers_in(*kept) == list(range(13))


def test_an_audit_file_that_became_a_link_is_not_followed(tmp_path):
    path, other = tmp_path / "audit.jsonl", tmp_path / "other"
    audit = Audit(path, max_bytes=1000, max_files=2, max_days=AT_ONCE)
    path.rename(tmp_path / "moved")
    other.touch()
    path.symlink_to(other)
    audit.write({"number": 0})
    audit.close()
    assert other.read_bytes() == b""
    assert numbers_in(tmp_path / "moved") == [0]


def test_a_bucket_fills_at_its_rate():
    now = 0.0
    rates = Rates(2.0, 3, clock=lambda: now)
    assert [rates.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert rates.wait("b") == 0
    now = 0.5
    assert [rates.wait("a"), rates.wait("a")] == [0, 0.5]
    now = 100.0
    assert [rates.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_the_number_of_remembered_keys_is_bounded():
    rates = Rates(1.0, 1, clock=lambda: 0.0)
    for number in range(10_000):
        rates.wait(str(number))
    assert len(rates._buckets) == 4096


def test_metrics_are_text_of_prometheus():
    metrics = Metrics()
    metrics.counter("b_total", "Things.")
    metrics.histogram("a_seconds", "Times.", (1, 2))
    metrics.gauge("c", "Level.", lambda: 2.5)
    metrics.count("b_total", 2, kind='a"b\\c\nd')
    for value in (0.5, 1, 1.5, 9):
        metrics.observe("a_seconds", value)
    assert metrics.text().splitlines() == [
        "# HELP trainfeed_a_seconds Times.",
        "# TYPE trainfeed_a_seconds histogram",
        'trainfeed_a_seconds_bucket{le="1"} 2',
        'trainfeed_a_seconds_bucket{le="2"} 3',
        'trainfeed_a_seconds_bucket{le="+Inf"} 4',
        "trainfeed_a_seconds_sum 12",
        "trainfeed_a_seconds_count 4",
        "# HELP trainfeed_b_total Things.",
        "# TYPE trainfeed_b_total counter",
        'trainfeed_b_total{kind="a\\"b\\\\c\\nd"} 2',
        "# HELP trainfeed_c Level.",
        "# TYPE trainfeed_c gauge",
        "trainfeed_c 2.5",
    ]
