"""The path of log files: a folder for each hour or day, and names with ``*``."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.core.intervals import Interval
from trainfeed.specification.log_paths import log_path, log_paths_of, logs_root
from trainfeed.specification.values import WrongValueError

START = datetime(2024, 2, 28, 23, tzinfo=UTC)


def interval(hours):
    return Interval(START, START + timedelta(hours=hours), "x")


@pytest.mark.parametrize(
    ("template", "hours", "top", "bases", "below"),
    [
        ("/l/{start:%Y%m%d}", 24, "/l/20240228", ("",), ""),
        ("/l/{start:%Y%m%d}/x", 24, "/l/20240228/x", ("",), ""),
        ("/l/{hour:%Y-%m-%d/%H}", 3, "/l", ("2024-02-28/23", "2024-02-29/00", "2024-02-29/01"), ""),
        ("/l/{hour:%Y-%m-%d/%H}", 1, "/l/2024-02-28/23", ("",), ""),
        ("/l/{day:%Y-%m-%d}/x", 48, "/l", ("2024-02-28/x", "2024-02-29/x"), ""),
        ("/l/{start:%Y%m%d}/k=*/{hour:%H}", 2, "/l/20240228", ("k=*/23", "k=*/00"), ""),
        ("/l/{start:%Y%m%d}/x/k=*/y", 24, "/l/20240228/x", ("",), "k=*/y"),
        ("/l/k=*/d={start:%Y%m%d}/*", 24, "/l", ("k=*/d=20240228",), "*"),
        ("/*/{start:%Y%m%d}", 24, "/", ("*/20240228",), ""),
    ],
)
def test_a_path_names_all_folders_of_an_interval(template, hours, top, bases, below):
    found = log_paths_of(log_path(template), interval(hours))
    assert (found.top, found.bases, found.below) == (top, bases, below)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/l/{hour:%Y%m%d}", "%H in {hour"),
        ("/l/{day:%Y%m}", "%d or %j in {day"),
        ("/l/{hour:%Y%m%d%H}/{day:%d}", "not both"),
        ("/l/{hour:%H}", "beside %H"),
        ("/l/{start:%Y%m%d}/**", "some part of a name"),
    ],
)
def test_a_path_that_names_too_few_folders_is_refused(path, message):
    with pytest.raises(WrongValueError) as refused:
        log_path(path)
    assert message in str(refused.value)


@given(st.integers(1, 24 * 40), st.sampled_from(["hour", "day"]))
def test_every_hour_or_day_has_one_folder_and_its_time(hours, field):
    step = timedelta(hours=1 if field == "hour" else 24)
    form = "%Y-%m-%dT%H" if field == "hour" else "%Y-%m-%d"
    found = log_paths_of(f"/l/{{{field}:{form}}}/x", interval(hours))
    wanted = -(-timedelta(hours=hours) // step)
    assert len(set(found.bases)) == len(found.bases) == wanted
    assert found.times == tuple(START + step * number for number in range(wanted))
    for base, time in zip(found.bases, found.times, strict=True):
        assert found.time_of(f"{base}/part-0".lstrip("/")) == time


def test_time_is_found_behind_a_star():
    found = log_paths_of("/l/k=*/{hour:%Y%m%d%H}", interval(2))
    assert found.time_of("k=a/2024022900/part-0") == START + timedelta(hours=1)
    assert found.time_of("k=[2024022900]/2024022823/part-0") == START


def test_the_root_of_the_logs_is_before_star_and_time():
    assert logs_root("/l/m/k=*/{start:%Y}") == "/l/m"
    assert logs_root("/l/{start:%Y}/k=*") == "/l"
