"""Log files as a source: the folder of an interval, the rule of completeness, their mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from trainfeed.core.intervals import Interval
from trainfeed.specification import DatasetSpec, expand_path, fingerprint_fields, logs_root

KAFKA = "  kafka: {connection: kafka_default, topic: clicks, settle: 30m, late: keep}\n"
PATH = "/logs/clicks/dt={start:%Y-%m-%d}"
DAY = Interval(datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC), "2024-02-29")

Change = Callable[[str, str], DatasetSpec]
Problem = Callable[[str, str], str]


def logs(**fields: str) -> str:
    entries = {"path": f'"{PATH}"', **fields}
    return f"  logs: {{{', '.join(f'{name}: {value}' for name, value in entries.items())}}}\n"


def test_what_is_left_out_has_a_default(changed: Change) -> None:
    source = changed(KAFKA, logs()).source.logs
    assert source is not None
    assert (source.connection, source.marker, source.stable) == ("hdfs_default", "_SUCCESS", None)
    assert (source.format, source.land, source.split_bytes) == ("lines", False, 64 << 20)
    assert (source.max_line_bytes, source.bytes_per_record) == (1 << 20, 256)
    assert (source.wait, source.missing, source.cut_line) == (timedelta(days=2), "fail", "keep")


def test_a_stable_folder_needs_no_marker(changed: Change) -> None:
    source = changed(KAFKA, logs(stable="10m")).source.logs
    assert source is not None
    assert (source.marker, source.stable) == (None, timedelta(minutes=10))


def test_the_interval_settles_as_long_as_its_logs_do(changed: Change) -> None:
    assert changed(KAFKA, logs(settle="2h")).source.kind.settle == timedelta(hours=2)
    assert changed(KAFKA, logs()).source.kind.topics == ()


def test_a_source_says_by_itself_whether_its_records_land(changed: Change) -> None:
    assert changed(KAFKA, KAFKA).source.kind.lands
    assert changed(KAFKA, "  recorded: {path: ./topic}\n").source.kind.lands
    assert changed(KAFKA, logs(land="true")).source.kind.lands
    assert not changed(KAFKA, logs()).source.kind.lands


def test_only_what_is_in_the_files_enters_the_fingerprint(changed: Change) -> None:
    spec = changed(KAFKA, logs())
    others = [
        logs(connection="other", path='"/elsewhere/{start:%Y%m%d}"'),
        logs(done="DONE", land="true", split_bytes="1B", max_line_bytes="5KiB", settle="1h"),
        logs(stable="10m", format="lines"),
        logs(wait="30d", missing="skip", cut_line="fail"),
    ]
    for other in others:
        assert fingerprint_fields(changed(KAFKA, other)) == fingerprint_fields(spec)
    changes_shards = fingerprint_fields(changed(KAFKA, logs(bytes_per_record="90B")))
    assert changes_shards["source"] == {"format": "lines", "bytes_per_record": 90}


@pytest.mark.parametrize(
    ("template", "expanded", "root"),
    [
        (PATH, "/logs/clicks/dt=2024-02-29", "/logs/clicks"),
        ("/logs/{start:%Y/%m/%d}/clicks", "/logs/2024/02/29/clicks", "/logs"),
        ("/l/y={start:%Y}/d={start:%j}", "/l/y=2024/d=060", "/l"),
        ("/l/{start:%Y%m%d}-{end:%Y%m%d}", "/l/20240229-20240301", "/l"),
        ("/{start:%Y-%m-%dT%H%M%S}", "/2024-02-29T000000", "/"),
        ("/logs/pre-{start:%Y%m%d}.d/x", "/logs/pre-20240229.d/x", "/logs"),
    ],
)
def test_a_path_names_the_folder_of_an_interval(
    changed: Change, template: str, expanded: str, root: str
) -> None:
    source = changed(KAFKA, logs(path=f'"{template}"')).source.logs
    assert source is not None
    assert expand_path(source.path, DAY) == expanded
    assert logs_root(source.path) == root


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/logs/clicks", "a path with the time of the interval in it.*the same folder"),
        ("logs/{start:%Y%m%d}", "an absolute path without"),
        ("/logs/../{start:%Y%m%d}", "an absolute path without"),
        ("/logs/{start:%Y/../%m%d}", "an absolute path without"),
        ("/logs//{start:%Y%m%d}", "an absolute path without"),
        ("/logs/./{start:%Y%m%d}", "an absolute path without"),
        ("/logs/{start:%Y%m%d}/", "an absolute path without"),
        ("/logs/{start:/%Y%m%d}", "an absolute path without"),
        ("/logs/{start:%Y%m%d}/{ds}", "fields of the form"),
        ("/logs/{begin:%Y%m%d}", "a path with the time of the interval"),
        ("/logs/{start}", "a path with the time of the interval"),
        ("/logs/{start.year:%Y}{start:%Y%m%d}", "fields of the form"),
        ("/logs/{start!r:%Y}{start:%Y%m%d}", "fields of the form"),
        ("/logs/{{start:%Y%m%d}}", "fields of the form"),
        ("/logs/{start:%Y%m%d", "a path with the time of the interval"),
        ("/logs/{start:daily}", "time formats made of %Y"),
        ("/logs/{start:%Y-%B-%d}", "time formats made of %Y"),
        ("/logs/{start:%Y%m%d%}", "time formats made of %Y"),
        ("/logs/{start:%Y%m%d%%}", "time formats made of %Y"),
        ("/logs/{start:%m-%d}", "expected %Y beside %m.*would read one folder"),
        ("/logs/{start:%Y-%d}", "expected %m beside %d"),
        ("/logs/{start:%Y-%H}", "expected %d or %j beside %H"),
        ("/logs/{start:%Y%m%d}\\tx", "without control characters"),
        ("/logs/{start:%Y%m%d}\\\\x", "without control characters and backslashes"),
    ],
)
def test_a_path_that_could_lead_astray_is_refused(
    problem: Problem, path: str, message: str
) -> None:
    text = problem(KAFKA, logs(path=f'"{path}"'))
    assert text.startswith("8: source.logs.path: expected ")
    assert re.search(message, text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pth": "x"}, "8: source.logs.pth: unknown field; did you mean 'path'?"),
        ({"done": "a/b"}, "8: source.logs.done: expected the name of the file that marks a"),
        ({"done": '"."'}, "8: source.logs.done: expected the name of the file"),
        ({"done": '".."'}, "8: source.logs.done: expected the name of the file"),
        ({"done": "_SUCCESS", "stable": "5m"}, "8: source.logs: expected done or stable, not both"),
        ({"stable": "soon"}, "8: source.logs.stable: expected a duration"),
        (
            {"format": "xml"},
            "8: source.logs.format: expected 'lines', 'json', 'csv', 'parquet', 'orc', 'arrow',",
        ),
        ({"format": "csv"}, "8: source.logs: expected fields beside format: csv; say the types"),
        ({"format": "json"}, "8: source.logs: expected fields beside format: json"),
        ({"fields": "{a: str}"}, "8: source.logs: expected fields with format: json or csv"),
        (
            {"format": "parquet", "fields": "{a: str}"},
            "8: source.logs: expected fields with format: json or csv; other files say their types",
        ),
        (
            {"format": "csv", "fields": "{a: int32}"},
            "8: source.logs.fields.a: expected 'bool', 'int64', 'float64' or 'str', got 'int32'",
        ),
        ({"format": "csv", "fields": "{}"}, "8: source.logs.fields: expected at least one entry"),
        (
            {"format": "json", "fields": "{a: str}", "csv": '{delimiter: ";"}'},
            "8: source.logs: expected csv with format: csv",
        ),
        (
            {"format": "csv", "fields": "{a: str}", "csv": '{delimiter: ";;"}'},
            "8: source.logs.csv.delimiter: expected one character of ASCII",
        ),
        (
            {"format": "csv", "fields": "{a: str}", "csv": "{delimiter: '\"'}"},
            "8: source.logs.csv: expected a delimiter and a quote that differ",
        ),
        (
            {"format": "csv", "fields": "{a: str}", "csv": '{delimiter: "1"}'},
            "8: source.logs.csv: expected as delimiter and quote a character that is not part",
        ),
        (
            {"format": "csv", "fields": "{a: str}", "csv": '{nulls: ["a\\nb"]}'},
            "8: source.logs.csv: expected nulls within one line",
        ),
        (
            {"format": "csv", "fields": "{a: str}", "columns": "[a]"},
            "8: source.logs: expected columns with one of the formats",
        ),
        ({"land": "maybe"}, "8: source.logs.land: expected true or false, got 'maybe'"),
        ({"split_bytes": "0B"}, "8: source.logs.split_bytes: expected at least 1, got '0B'"),
        ({"max_line_bytes": "1GiB"}, "8: source.logs.max_line_bytes: expected at most 268435456"),
        ({"bytes_per_record": "-1"}, "8: source.logs.bytes_per_record: expected at least 1"),
        ({"wait": "99999d"}, "8: source.logs.wait: expected at most "),
        ({"wait": "forever"}, "8: source.logs.wait: expected a duration"),
        ({"missing": "ignore"}, "8: source.logs.missing: expected 'fail', 'empty' or 'skip'"),
        ({"cut_line": "drop"}, "8: source.logs.cut_line: expected 'keep' or 'fail'"),
        ({"connection": '""'}, "8: source.logs.connection: expected a connection id"),
    ],
)
def test_a_mistake_is_named(problem: Problem, fields: dict[str, str], message: str) -> None:
    assert problem(KAFKA, logs(**fields)).startswith(message)


def test_a_path_is_needed(problem: Problem) -> None:
    text = problem(KAFKA, "  logs: {done: _SUCCESS}\n")
    assert text == "8: source.logs.path: required, and missing; add the field"


def test_logs_and_topics_do_not_mix(problem: Problem) -> None:
    assert "expected one of kafka, recorded, logs, iceberg, union, got" in problem(
        KAFKA, KAFKA + logs()
    )


@pytest.mark.parametrize("schedule", ["@hourly", "*/10 * * * *"])
def test_every_interval_has_a_folder_of_its_own(problem: Problem, schedule: str) -> None:
    text = problem(
        f'schedule: "@daily"\nstart: 2013-01-01\nend: 2013-12-31\nseed: 7\nsource:\n{KAFKA}',
        f'schedule: "{schedule}"\nstart: 2013-01-01\nseed: 7\nsource:\n{logs()}',
    )
    assert "source.logs.path: expected a folder for every interval, got" in text
    assert "'/logs/clicks/dt=2013-01-01' for 2013-01-01T00" in text


def test_all_of_the_first_intervals_are_looked_at(problem: Problem) -> None:
    """Monday noon and the midnight a week later differ; that midnight and its noon do not."""
    text = problem(
        f'schedule: "@daily"\nstart: 2013-01-01\nend: 2013-12-31\nseed: 7\nsource:\n{KAFKA}',
        'schedule: "0 0,12 * * 1"\nstart: 2013-01-07T12:00:00Z\nseed: 7\nsource:\n' + logs(),
    )
    assert "'/logs/clicks/dt=2013-01-14' for 2013-01-14T00 and 2013-01-14T12" in text


def test_a_wrong_schedule_is_told_before_its_folders_are(problem: Problem) -> None:
    text = problem(
        f'schedule: "@daily"\nstart: 2013-01-01\nend: 2013-12-31\nseed: 7\nsource:\n{KAFKA}',
        f'schedule: "@dayly"\nstart: 2013-01-01\nend: 2013-12-31\nseed: 7\nsource:\n{logs()}',
    )
    assert text.startswith("3: schedule: expected five cron fields")
    assert "source.logs" not in text


def test_a_schedule_of_one_interval_has_one_folder(changed: Change) -> None:
    spec = changed(
        f"end: 2013-12-31\nseed: 7\nsource:\n{KAFKA}",
        f"end: 2013-01-01\nseed: 7\nsource:\n{logs()}",
    )
    assert spec.source.logs is not None
