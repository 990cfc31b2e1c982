"""A data set with a recorded schedule of days, and a status of it at a chosen time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from trainfeed.core.intervals import Schedule, parse_range
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.versions import DatasetFolder, record_schedule

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Days:
    """A data set ``clicks`` of days."""

    root: Path

    @property
    def folder(self):
        return DatasetFolder(self.root, "clicks")

    def first(self, count):
        return list(islice(Schedule("@daily", START).intervals(), count))

    def status(self, now, asked=None, datasets=None):
        attempts = Attempts(Location.parse(str(self.root / "work")), now)
        span = None if asked is None else parse_range(asked)
        return dataset_status(self.folder, datasets=datasets, attempts=attempts, now=now, span=span)


@pytest.fixture
def days(tmp_path):
    """Days from the first of January 2026 on."""
    record_schedule(DatasetFolder(tmp_path, "clicks"), Schedule("@daily", START))
    return Days(tmp_path)


@pytest.fixture
def at_once(monkeypatch):
    """Let versions be indexed that were written just now."""
    from trainfeed.look.status import versions as _versions

    monkeypatch.setattr(_versions, "_SETTLED_NS", 0)
