"""Audit files of bounded size, rates per key, and metrics as text."""

import json
import os
from pathlib import Path

from trainfeed.server import Metrics
from trainfeed.server._audit import Audit
from trainfeed.server._rates import Rates


def test_a_full_audit_file_is_kept_under_a_number_and_the_oldest_goes(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, max_bytes=30, max_files=2)
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


def test_an_audit_goes_on_in_the_file_of_the_server_before(tmp_path):
    for number in range(2):
        audit = Audit(tmp_path / "audit.jsonl", max_bytes=1000, max_files=2)
        audit.write({"number": number})
        audit.close()
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 2


def test_a_line_that_cannot_be_written_is_counted_and_logged(tmp_path, caplog):
    audit = Audit(tmp_path / "audit.jsonl", max_bytes=1000, max_files=2)
    descriptor, audit._descriptor = audit._descriptor, os.open(tmp_path, os.O_RDONLY)
    audit.write({"who": "anna"})
    os.close(audit._descriptor)
    os.close(descriptor)
    assert audit.failures == 1
    assert '{"who":"anna"}' in caplog.text


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
