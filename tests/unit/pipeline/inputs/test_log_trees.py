"""Several folders of logs in one interval: one for each hour, and those that fit ``*``."""

import gzip
import json
import os
import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.pipeline.log_project import DAY, lines, make_log_project
from trainfeed.errors import FormatError, LogsMissingError, SourceReplacedError, WindowOpenError
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.versions import Ledger

FLAT = "/logs/clicks/dt={start:%Y-%m-%d}"
HOURLY = f"{FLAT}/{{hour:%H}}"
HOURS = [f"{hour:02}" for hour in range(24)]


@pytest.fixture
def project(tmp_path):
    return make_log_project(tmp_path)


def spread(project, path, names, *, marked=True):
    """Cut 240 lines into a file for each folder; the path of the data set names these."""
    shutil.rmtree(project.logs)
    project.edit(FLAT, path)
    records = list(lines(0, 240))
    share = len(records) // len(names)
    for number, name in enumerate(names):
        folder = project.logs / name
        folder.mkdir(parents=True)
        part = records[number * share : (number + 1) * share]
        (folder / "part-0.gz").write_bytes(gzip.compress(b"".join(each + b"\n" for each in part)))
        if marked:
            (folder / "_SUCCESS").touch()


def read_records(project):
    ledger = Ledger.from_json(project.version().manifest.ledger)
    return {source: ledger[source].read.records for source in project.version().manifest.sources}


def test_a_day_of_hourly_folders_is_one_interval(project):
    spread(project, HOURLY, HOURS)
    project.build()
    assert read_records(project) == {f"logs:dt={DAY}/{hour}/part-0.gz": 10 for hour in HOURS}
    markers = {f"{hour}/_SUCCESS": "marker" for hour in HOURS}
    assert project.version().manifest.passed_over == markers


def test_a_line_has_the_time_of_its_hour(project):
    code = """
def clicks(record, lookups):
    return {"value": 0.0, "label": record.timestamp.hour}
"""
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    spread(project, HOURLY, HOURS)
    project.build()
    found = json.loads((project.version().path / "statistics.json").read_text())
    assert (found["train"]["label"]["min"], found["train"]["label"]["max"]) == (0, 23)
    stamps = {
        source.split("/")[-2]: each["timestamp_ms"]
        for source, each in project.version().manifest.inputs.items()
    }
    first = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1000)
    assert stamps == {hour: first + int(hour) * 3_600_000 for hour in HOURS}


def test_an_hour_without_marker_is_waited_for_by_name(project):
    spread(project, HOURLY, HOURS)
    (project.logs / "07/_SUCCESS").unlink()
    shutil.rmtree(project.logs / "09")
    with pytest.raises(WindowOpenError, match=r"2 of its 24 folders .*07: it has no _S.*09: the"):
        project.build()
    assert not list(project.folder.path.glob("versions/*"))


def test_an_hour_that_never_came_is_passed_over_where_it_may_be_empty(project):
    spread(project, HOURLY, HOURS)
    shutil.rmtree(project.logs / "09")
    project.edit("wait: 36500d", "wait: 0s, missing: empty")
    project.build()
    assert len(read_records(project)) == 23
    assert project.version().manifest.passed_over["09"] == "missing"
    assert project.version().manifest.empty_because == {}


def test_an_hour_that_holds_lines_but_no_marker_is_never_taken_as_empty(project):
    spread(project, HOURLY, HOURS)
    (project.logs / "07/_SUCCESS").unlink()
    project.edit("wait: 36500d", "wait: 0s, missing: empty")
    with pytest.raises(LogsMissingError, match="07: it has no _SUCCESS"):
        project.build()


def test_an_hour_that_comes_after_the_plan_is_noticed(project):
    spread(project, HOURLY, HOURS)
    shutil.rmtree(project.logs / "09")
    project.edit("wait: 36500d", "wait: 0s, missing: empty")
    report = plan(project.spec, project.interval(), project.env)
    shutil.copytree(project.logs / "08", project.logs / "09")
    with pytest.raises(SourceReplacedError, match=r"09/part-0\.gz was added"):
        ingest(Build(project.spec, project.env, report.ref), 0)


def test_a_marker_that_vanishes_from_one_hour_stops_the_read(project):
    spread(project, HOURLY, HOURS)
    report = plan(project.spec, project.interval(), project.env)
    (project.logs / "11/_SUCCESS").unlink()
    with pytest.raises(SourceReplacedError, match="11/_SUCCESS was there and is gone"):
        ingest(Build(project.spec, project.env, report.ref), 0)


def test_folders_that_fit_stars_are_read_below_one_marker(project):
    names = ["region=eu/part=0", "region=eu/part=1", "region=us/part=0"]
    spread(project, f"{FLAT}/region=*/part=*", names, marked=False)
    (project.logs / "_SUCCESS").touch()
    (project.logs / "old").mkdir()
    project.build()
    assert read_records(project) == {f"logs:dt={DAY}/{name}/part-0.gz": 80 for name in names}
    assert project.version().manifest.passed_over == {"_SUCCESS": "marker", "old": "not_matched"}


def test_a_star_before_the_day_gives_a_marker_to_each_folder(project):
    names = ["eu", "us"]
    spread(project, "/logs/clicks/region=*/dt={start:%Y-%m-%d}", names)
    for name in names:
        place = project.logs.parent / f"region={name}" / f"dt={DAY}"
        place.parent.mkdir()
        (project.logs / name).rename(place)
    project.build()
    sources = {f"logs:region={name}/dt={DAY}/part-0.gz": 120 for name in names}
    assert read_records(project) == sources
    (project.logs.parent / f"region=eu/dt={DAY}/_SUCCESS").unlink()
    with pytest.raises(WindowOpenError, match="1 of its 2 folders is"):
        project.elsewhere("again").build()


@pytest.mark.parametrize("target", ["region=eu", "away"])
def test_a_link_among_the_folders_before_the_day_stops_the_build(project, target):
    spread(project, "/logs/clicks/region=*/dt={start:%Y-%m-%d}", ["x"])
    place = project.logs.parent / "region=eu" / f"dt={DAY}"
    place.parent.mkdir()
    (project.logs / "x").rename(place)
    # Its lines would count twice, or the folder is on a mount that is away.
    (project.logs.parent / "region=us").symlink_to(target)
    with pytest.raises(FormatError, match="'region=us'"):
        project.build()
    (project.logs.parent / "region=us").unlink()
    project.build()


def test_a_file_beside_folders_that_fit_stops_the_build(project):
    spread(project, f"{FLAT}/region=*", ["region=eu"], marked=False)
    (project.logs / "_SUCCESS").touch()
    (project.logs / "stray.txt").write_text("line\n")
    with pytest.raises(FormatError, match=r"folders named 'region=\*', got the file 'stray.txt'"):
        project.build()


def test_what_is_no_folder_beside_folders_that_fit_stops_the_build_too(project):
    spread(project, f"{FLAT}/region=*", ["region=eu"], marked=False)
    (project.logs / "_SUCCESS").touch()
    # A folder on a mount that is away.
    (project.logs / "region=us").symlink_to(project.path / "away")
    with pytest.raises(FormatError, match="'region=us'"):
        project.build()
    (project.logs / "region=us").unlink()
    os.mkfifo(project.logs / "region=asia")
    with pytest.raises(FormatError, match="'region=asia'"):
        project.build()


def test_a_star_that_nothing_fits_is_an_error_and_an_empty_folder_is_none(project):
    spread(project, f"{FLAT}/region=*", ["Region=eu"], marked=False)
    (project.logs / "_SUCCESS").touch()
    with pytest.raises(FormatError, match="got only Region=eu"):
        project.build()
    shutil.rmtree(project.logs / "Region=eu")
    project.build()
    assert project.version().manifest.empty_because == {f"logs:/logs/clicks/dt={DAY}": "no_files"}


def test_a_link_among_the_folders_would_count_twice(project):
    spread(project, f"{FLAT}/region=*", ["region=eu"], marked=False)
    (project.logs / "_SUCCESS").touch()
    (project.logs / "region=us").symlink_to("region=eu")
    with pytest.raises(FormatError, match="'region=us', a link"):
        project.build()


def test_one_file_in_two_hours_would_count_twice(project):
    spread(project, HOURLY, HOURS)
    (project.logs / "01/part-0.gz").unlink()
    os.link(project.logs / "00/part-0.gz", project.logs / "01/part-0.gz")
    with pytest.raises(FormatError, match="names of one file"):
        project.build()


def test_stable_holds_for_each_folder(project):
    spread(project, HOURLY, HOURS, marked=False)
    project.edit("wait: 36500d", "wait: 36500d, stable: 10m")
    with pytest.raises(WindowOpenError, match="less than 0:10:00 ago"):
        project.build()
    for place in project.logs.rglob("*"):
        os.utime(place, (0, 0))
    os.utime(project.logs / "13")
    with pytest.raises(WindowOpenError, match="dt=2024-03-01/13 is not complete"):
        project.build()
    os.utime(project.logs / "13", (0, 0))
    project.build()
    assert len(read_records(project)) == 24


def test_a_function_reads_partition_values_out_of_the_source(project):
    code = """
from trainfeed.preprocessing import partition_values


def clicks(record, lookups):
    return {"value": 0.0, "label": int(partition_values(record.source)["shop"])}
"""
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    spread(project, f"{FLAT}/shop=*", ["shop=3", "shop=8"], marked=False)
    (project.logs / "_SUCCESS").touch()
    project.build()
    statistics = json.loads((project.version().path / "statistics.json").read_text())
    label = statistics["train"]["label"]
    assert (label["min"], label["max"]) == (3, 8)


def test_hours_of_parquet_files_give_the_samples_of_the_lines(project):
    code = """
from trainfeed.preprocessing import partition_values


def clicks(record, lookups):
    return {"value": record.fields["value"], "label": int(partition_values(record.source)["h"])}
"""
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    spread(project, f"{FLAT}/h={{hour:%H}}", [f"h={hour}" for hour in HOURS])
    for number, hour in enumerate(HOURS):
        folder = project.logs / f"h={hour}"
        values = [float(number), number + 0.5]
        text = "".join(json.dumps({"value": value}) + "\n" for value in values)
        (folder / "part-0.gz").write_bytes(gzip.compress(text.encode()))
        rows = project.path / "rows" / folder.relative_to(project.path / "store")
        rows.mkdir(parents=True)
        pq.write_table(pa.table({"value": values}), rows / "part-0.parquet")
        (rows / "_SUCCESS").touch()
    project.build()
    lines = json.loads((project.version().path / "statistics.json").read_text())
    (project.path / "store").rename(project.path / "lines")
    (project.path / "rows").rename(project.path / "store")
    project.edit("bytes_per_record: 16", "bytes_per_record: 16, format: parquet")
    other = project.elsewhere("parquet")
    other.build()
    found = json.loads((other.version().path / "statistics.json").read_text())
    for statistics in (lines, found):
        splits = statistics.values()
        assert sum(each["value"]["count"] for each in splits) == 48
        assert min(each["label"]["min"] for each in splits) == 0
        assert max(each["label"]["max"] for each in splits) == 23
        assert max(each["value"]["max"] for each in splits) == 23.5
