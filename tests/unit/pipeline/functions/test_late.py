"""Records stamped outside of their interval: late, ahead of it, or without a stamp."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, day, event
from trainfeed.errors import GateError
from trainfeed.pipeline.functions.account import Lateness
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preview import describe, dry_run

HOUR_MS = 3_600_000
YEAR_2099 = 4_070_908_800_000
NOON_MS = START_MS + DAY_MS + DAY_MS // 2


@pytest.fixture
def record(project):
    """Record three days, with further events at noon of the second."""

    def record(*stamps, policy="keep", skew="2h"):
        project.edit(
            "topic: clicks, settle: 0s}",
            f"topic: clicks, settle: 0s, late: {policy}, skew: {skew}}}",
        )
        more = [event(1, stamp) for stamp in stamps]
        events = day(0, 300) + day(1, 300)[:150] + more + day(1, 300)[150:] + day(2, 300)
        project.record({0: [batch(events)]})
        return project

    return record


def late_of(project):
    return project.version("2024-03-02").manifest.late


def test_a_record_without_a_stamp_is_counted_on_its_own_and_is_not_late(record):
    project = record(-1, -1, START_MS + 1)
    project.build("2024-03-02")
    late = late_of(project)
    assert (late["unstamped"], late["late"], late["future"]) == (2, 1, 0)
    assert late["max_lateness_ms"] == DAY_MS - 1


def test_optional_counts_are_left_out_where_they_are_0(record):
    project = record(START_MS + 1, YEAR_2099)
    project.build("2024-03-02")
    assert late_of(project).keys() == {"policy", "late", "future", "max_lateness_ms", "refused"}
    assert "empty_because" not in project.version("2024-03-02").manifest.to_json()


def test_a_record_without_a_stamp_is_in_no_split_for_late_ones(record):
    project = record(-1, START_MS + 1, START_MS + 2, policy="separate")
    project.build("2024-03-02")
    assert project.version("2024-03-02").manifest.splits["late"].samples == 2


@pytest.mark.parametrize("stamp", [YEAR_2099, 1000 * NOON_MS, START_MS + 2 * DAY_MS + 3 * HOUR_MS])
def test_a_stamp_long_after_the_interval_is_refused_where_late_records_are(record, stamp):
    project = record(stamp, policy="fail")
    with pytest.raises(GateError, match="late is 1, allowed: max 0"):
        project.build("2024-03-02")


@pytest.mark.parametrize("stamp", [START_MS + 2 * DAY_MS + HOUR_MS, -1])
def test_a_stamp_shortly_after_the_interval_or_none_is_not_refused(record, stamp):
    project = record(stamp, policy="fail")
    project.build("2024-03-02")
    assert late_of(project)["refused"] == 0


def test_counts_of_parts_add_up():
    rng = np.random.default_rng(5)
    stamps = rng.choice([-1, 5, 10, 15, 20, 99], 1000)
    whole, parts = Lateness(), Lateness()
    whole.count(stamps, 10, 20, 50)
    for part in np.array_split(stamps, 7):
        one = Lateness()
        one.count(part, 10, 20, 50)
        parts = parts + Lateness(**one.to_json())
    assert parts == whole
    assert whole.to_json() == {
        "late": int((stamps == 5).sum()),
        "future": int((stamps >= 20).sum()),
        "max_lateness_ms": 5,
        "unstamped": int((stamps == -1).sum()),
        "ahead": int((stamps == 99).sum()),
    }


def test_an_empty_interval_says_why_in_report_manifest_and_dry_run(project):
    why = {f"kafka:clicks/{number}": "log_end" for number in range(3)}
    assert dry_run(project.spec, project.interval("2024-03-20"), project.env).empty_because == why
    lines = describe(dry_run(project.spec, project.interval("2024-03-20"), project.env))
    assert "nothing there  kafka:clicks/0: log_end" in lines
    assert plan(project.spec, project.interval("2024-03-20"), project.env).empty_because == why
    project.build("2024-03-20")
    manifest = project.version("2024-03-20").manifest
    assert (manifest.empty, manifest.empty_because) == (True, why)
    again = plan(project.spec, project.interval("2024-03-20"), project.env)
    assert again.verdict == "identical"
