"""A year of hours of Berlin is opened as one set and read, and its hours are read in order."""

import hashlib
import os
from datetime import timedelta

import numpy as np
import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from trainfeed import open_dataset
from trainfeed.core import canonical_json
from trainfeed.core.intervals import Schedule, format_time, parse_time
from trainfeed.versions import record_schedule

BERLIN = "Europe/Berlin"
HOURS = 8760


@pytest.fixture
def year(project):
    """One hour that was built, and its files under the names of all hours of the year."""
    hour_ms = 3_600_000
    rows = [event(number, START_MS + number) for number in range(10)]
    rows += [event(-1, START_MS + hour_ms), event(-1, START_MS + 2 * hour_ms)]
    project.record({0: [batch(rows)]})
    project.edit('schedule: "@daily"', 'schedule: "@hourly"')
    project.edit("split: {train: 0.8, eval: 0.2, by: record}", "split: {train: 1}")
    project.build("2024-03-01T00")
    built = project.version("2024-03-01T00").path
    own = canonical_json.loads((built / "MANIFEST.json").read_bytes())
    schedule = Schedule("@hourly", parse_time("2025-12-31T23"), zone=BERLIN)
    hours = schedule.overlapping(parse_time("2025-12-31T23"), parse_time("2026-12-31T23"))
    folder = built.parents[1]
    for each in hours:
        target = folder / each.name / "g0001"
        target.mkdir(parents=True)
        for path in built.iterdir():
            if path.is_file() and not path.name.startswith("MANIFEST"):
                os.link(path, target / path.name)
        (target / "quarantine").mkdir()
        span = {"start": format_time(each.start), "end": format_time(each.end)}
        data = canonical_json.dumps({**own, "interval": span})
        (target / "MANIFEST.json").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        (target / "MANIFEST.sha256").write_text(f"{digest}\n")
        (target.parent / "CURRENT").write_text("g0001\n")
    (project.folder.path / "SCHEDULE.json").unlink()
    record_schedule(project.folder, schedule, parse_time("2026-12-31T23"))
    return project


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_year_of_hours_is_opened_and_read_in_order(year):
    asked = {"interval": "2026-01/2026-12", "split": "train", "root": year.env.root}
    data = open_dataset("clicks", **asked)
    starts = [parse_time(version.manifest.interval.start) for version in data.versions]
    first = parse_time("2025-12-31T23")
    assert starts == [first + number * timedelta(hours=1) for number in range(HOURS)]
    assert data.num_samples == 10 * HOURS
    found = np.concatenate([block["value"] for block in data.iter_arrays()])
    assert found.shape == (10 * HOURS,)
    assert (np.sort(found.reshape(HOURS, 10)) == np.arange(10)).all()
