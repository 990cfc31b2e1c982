"""Requests that cannot be met: one message, nothing published, nothing read in vain."""

import errno
import os
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import batch, day
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    FormatError,
    MemoryLimitError,
    OffsetOutOfRangeError,
    WindowError,
    WindowOpenError,
)


def published(project):
    return [name for name in project.folder.intervals() if project.folder.readable_generation(name)]


def test_a_missing_lookup_stops_the_plan_and_names_the_file(project):
    project.edit("seed: 7", "seed: 7\nlookups: {names: names.csv}")
    with pytest.raises(ConfigError) as caught:
        project.build()
    path = project.env.datasets / "clicks" / "names.csv"
    assert str(caught.value) == (
        f"lookup 'names' of data set 'clicks' is missing: {path}; put the file there, or take it"
        " out of 'lookups' in dataset.yaml"
    )
    assert not Path(project.env.landing).exists()


def test_a_lookup_that_cannot_be_opened_stops_the_plan_and_is_named(project):
    project.edit("seed: 7", "seed: 7\nlookups: {names: names.csv}")
    path = project.env.datasets / "clicks" / "names.csv"
    path.mkdir()
    with pytest.raises(FormatError) as caught:
        project.build()
    assert str(caught.value) == f"expected a plain file, got a folder in {path}"
    assert not Path(project.env.landing).exists()


def test_lookups_that_are_larger_than_a_worker_may_be_stop_the_plan_unread(project, monkeypatch):
    lookups = "lookups: {names: names.csv, towns: towns.csv}"
    project.edit("seed: 7", f"seed: 7\nresources: {{worker_memory_bytes: 256MiB}}\n{lookups}")
    folder = project.env.datasets / "clicks"
    for name, num_bytes in (("names", 200 << 20), ("towns", (56 << 20) + 1)):
        with (folder / f"{name}.csv").open("wb") as file:
            file.truncate(num_bytes)
    monkeypatch.setattr("hashlib.file_digest", lambda *_: pytest.fail("it was read"))
    with pytest.raises(MemoryLimitError) as caught:
        project.build()
    assert str(caught.value) == (
        "expected lookups of at most resources.worker_memory_bytes = 268435456 bytes, because"
        " every worker holds them, got 268435457 bytes in data set 'clicks', the largest is"
        " 'names' with 209715200; nothing was read; keep the rows and columns that the function"
        " needs, or raise it in dataset.yaml"
    )
    assert not Path(project.env.landing).exists()


def test_a_backfill_over_deleted_records_builds_the_days_that_are_left(project):
    # The broker has deleted the first day and a part of the second.
    rows = day(0, 60) + day(1, 40) + day(2, 30)
    project.record({0: [batch(rows)]})
    project.build("2024-03-01")
    project.record({0: [batch(rows[80:], first=80)]})
    outcomes = {}
    for name in ("2024-03-01", "2024-03-02", "2024-03-03"):
        try:
            outcomes[name] = project.build(name)["verdict"]
        except OffsetOutOfRangeError as error:
            outcomes[name] = str(error)
    assert outcomes["2024-03-01"] == "identical"
    assert outcomes["2024-03-03"] == "built"
    assert outcomes["2024-03-02"] == (
        "retention is past the interval: kafka:clicks/0 offsets [60, 80) were deleted; nothing was"
        " read or published; restore the records, or accept the loss with --allow-gap WHY (Airflow:"
        " parameter 'allow_gap')"
    )
    assert published(project) == ["2024-03-01", "2024-03-03"]
    assert project.build("2024-03-02", allow_gap="disk lost")["samples"] > 0


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_of_plans_that_is_closed_to_us_is_said_as_such(project, monkeypatch, number):
    make_folder = Path.mkdir

    def refuse(path, *arguments, **options):
        if path.parent.name == "plans":
            raise OSError(number, os.strerror(number), str(path))
        return make_folder(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(AccessDeniedError) as caught:
        project.build()
    assert str(caught.value) == (
        f"{project.folder.path}/plans/2024-03-01: {os.strerror(number).lower()};"
        " give the account of this process access, or run as another account"
    )
    assert published(project) == []


def test_a_future_window_says_from_when_on_it_can_be_built(project):
    project.edit("end: 2024-03-31\n", "")
    with pytest.raises(WindowOpenError) as caught:
        project.build("2999-01-01")
    assert str(caught.value) == (
        "interval 2999-01-01 of data set 'clicks' ends at 2999-01-02T00:00:00Z and settles for"
        " 0:00:00: it can be planned from 2999-01-02T00:00:00Z on; nothing was read or written; run"
        " again then"
    )
    assert published(project) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("2024-03-01T05", "expected an interval name like 2024-03-01 for the schedule '0 0 * * *'"),
        ("2024-02-29", "lies before the first interval, 2024-03-01; ask for a later one"),
        ("2024-04-01", "lies after the last interval, 2024-03-31; ask for an earlier one"),
        ("today", "expected a UTC time like 2013-01-01"),
    ],
)
def test_a_window_that_is_no_interval_is_named_with_one_that_is(project, name, said):
    with pytest.raises(WindowError) as caught:
        project.build(name)
    assert said in str(caught.value)
