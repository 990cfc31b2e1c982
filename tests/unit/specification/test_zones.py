"""A data set whose days are those of a zone: its first day, and the folders of its logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from trainfeed.core.intervals import Schedule, parse_time
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.specification.log_paths import log_paths_of

KAFKA = "  kafka: {connection: kafka_default, topic: clicks, settle: 30m, late: keep}\n"
HEAD = 'schedule: "@daily"\nstart: 2013-01-01\nend: 2013-12-31\nseed: 7\nsource:\n' + KAFKA
BERLIN = "Europe/Berlin"

Change = Callable[[str, str], DatasetSpec]
Problem = Callable[[str, str], str]


def zoned(source: str = KAFKA, cron: str = "@daily", start: str = "2026-03-01", **more: str) -> str:
    tz = more.pop("tz", BERLIN)
    lines = [f'schedule: "{cron}"', f"tz: {tz}", f"start: {start}"]
    lines += [f"{name}: {value}" for name, value in more.items()]
    return "\n".join([*lines, "source:", source])


def logs(path: str, tz: str | None = None) -> str:
    zone = "" if tz is None else f", tz: {tz}"
    return f'  logs: {{path: "/logs/{path}"{zone}}}\n'


def test_first_and_last_day_are_those_of_the_zone(changed: Change) -> None:
    spec = changed(HEAD, zoned(end="2026-03-29"))
    schedule = spec.schedule_model()
    last = parse_time("2026-03-28T23")
    assert schedule == Schedule("@daily", parse_time("2026-02-28T23"), last, BERLIN)


def test_a_zone_is_not_in_the_fingerprint_of_an_interval(changed: Change) -> None:
    """Its start and end are, which is all that the zone decides."""
    plain = fingerprint_fields(changed(HEAD, HEAD))
    without_seed = {**fingerprint_fields(changed(HEAD, zoned())), "seed": plain["seed"]}
    assert without_seed == plain


def test_utc_is_no_zone(changed: Change) -> None:
    spec = changed(HEAD, zoned(tz="UTC", start="2026-03-01T00:00:00"))
    assert (spec.tz, spec.schedule_model().first_name) == (None, "2026-03-01")


@pytest.mark.parametrize("start", ["2026-02-28T23:00:00Z", '"2026-03-01T00:00:00+01:00"'])
def test_a_time_with_its_distance_to_utc_is_taken(changed: Change, start: str) -> None:
    assert changed(HEAD, zoned(start=start)).start == parse_time("2026-02-28T23")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tz": "Europe/Berln"}, "tz: expected the name of a time zone.*'Europe/Berlin'"),
        ({"tz": "Etc/UTC"}, "tz: expected the name of a time zone.*leave it out"),
        ({"tz": "7"}, "tz: expected"),
        ({"start": "2026-03-01T00:00:00"}, "start: expected a day of Europe/Berlin"),
        ({"start": "2026-03"}, "start: expected a day of Europe/Berlin"),
        ({"start": "2026-02-30"}, "start: expected a day of Europe/Berlin"),
        ({"start": "2026-03-01T00:00:00Z"}, "start: 2026-03-01T00:00:00Z is not a tick"),
        ({"tz": "Pacific/Apia", "start": "2011-12-30"}, "start: expected a day of Pacific/Apia"),
    ],
)
def test_what_leaves_the_day_open_is_refused(
    problem: Problem, change: dict[str, str], message: str
) -> None:
    import re

    assert re.search(message, problem(HEAD, zoned(**change)), re.DOTALL)


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        (logs("{start:%Y-%m-%d}"), {}, "expected UTC or Europe/Berlin, got nothing"),
        (logs("{start:%Y-%m-%d}", "Asia/Tokyo"), {}, "expected UTC or Europe/Berlin, got 'Asia"),
        (logs("{start:%Y-%m-%d}", "UTC"), {}, "parts of two days of Europe/Berlin"),
        (logs("{day:%Y-%m-%d}", "UTC"), {}, "parts of two days of Europe/Berlin"),
        (
            logs("{hour:%Y-%m-%d/%H}", "UTC"),
            {"tz": "Asia/Kolkata"},
            "expected %M in the path beside tz: UTC",
        ),
        (
            logs("{hour:%Y-%m-%d/%H}", "UTC"),
            {"tz": "Australia/Lord_Howe", "start": "2026-01-01", "cron": "0 */6 * * *"},
            "expected %M in the path beside tz: UTC",
        ),
        (logs("{start:%Y-%m-%dT%H}", BERLIN), {"cron": "@hourly"}, "times of a zone come twice"),
        (
            logs("{start:%Y-%m-%dT%H%M}", BERLIN),
            {"cron": "*/20 * * * *"},
            "times of a zone come twice",
        ),
    ],
)
def test_folders_whose_time_leaves_the_day_open_are_refused(
    problem: Problem, source: str, more: dict[str, str], message: str
) -> None:
    assert message in problem(HEAD, zoned(source, **more))


def test_a_zone_of_folders_without_one_of_the_set_is_refused(problem: Problem) -> None:
    assert "logs.tz: expected UTC, as the schedule" in problem(
        KAFKA, logs("{start:%Y-%m-%d}", BERLIN)
    )


@pytest.mark.parametrize(
    ("cron", "source"),
    [
        ("@daily", logs("{start:%Y-%m-%d}", BERLIN)),
        ("@daily", logs("{hour:%Y-%m-%d/%H}", BERLIN)),
        ("@daily", logs("{hour:%Y-%m-%d/%H}", "UTC")),
        ("@hourly", logs("{start:%Y-%m-%d/%H}", "UTC")),
        ("@monthly", logs("{day:%Y-%m-%d}", BERLIN)),
        ("0 */6 * * *", logs("{start:%Y-%m-%dT%H}", BERLIN)),
    ],
)
def test_folders_that_belong_to_one_interval_are_taken(
    changed: Change, cron: str, source: str
) -> None:
    assert changed(HEAD, zoned(source, cron=cron)).tz == BERLIN


@pytest.mark.parametrize(
    ("day", "number", "doubled"), [("2026-03-29", 23, ()), ("2026-10-25", 24, ("02",))]
)
def test_a_day_with_a_change_has_the_hours_that_clocks_show(
    day: str, number: int, doubled: tuple[str, ...]
) -> None:
    schedule = Schedule("@daily", parse_time("2026-02-28T23"), zone=BERLIN)
    interval = schedule.interval_at(day)
    found = log_paths_of("/l/{hour:%Y-%m-%d/%H}", interval, BERLIN)
    assert found.top == f"/l/{day}"
    assert len(found.bases) == len(set(found.bases)) == number
    assert ("02" in found.bases) == bool(doubled)
    in_utc = log_paths_of("/l/{hour:%Y-%m-%d/%H}", interval)
    assert len(in_utc.bases) == (interval.end - interval.start) // timedelta(hours=1)


def test_a_month_has_a_folder_for_each_of_its_days() -> None:
    schedule = Schedule("@monthly", parse_time("2026-02-28T23"), zone=BERLIN)
    for month, days in (("2026-03", 31), ("2026-10", 31), ("2026-11", 30)):
        interval = schedule.interval_at(f"{month}-01")
        found = log_paths_of("/l/{day:%Y-%m-%d}", interval, BERLIN)
        assert list(found.bases) == [f"{month}-{day:02d}" for day in range(1, days + 1)]
