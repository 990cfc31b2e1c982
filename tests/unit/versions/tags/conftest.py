"""A data set of published versions without samples, made without a build."""

import hashlib
from itertools import islice

import pytest

from tests.unit.versions.coverage.test_coverage import EMPTY, START
from trainfeed.core.intervals import Schedule, format_time
from trainfeed.versions import DatasetFolder, Manifest, init_root, record_schedule
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST
from trainfeed.versions.withdraw import Withdrawal, write_withdrawal

DAYS = [day.name for day in islice(Schedule("@daily", START).intervals(), 40)]
ASKED = f"{DAYS[0]}/{DAYS[4]}"


class Clicks:
    """The data set, and what can happen to its versions."""

    def __init__(self, root):
        init_root(root)
        self.folder = DatasetFolder(root, "clicks")
        self.schedule = Schedule("@daily", START)
        record_schedule(self.folder, self.schedule)

    def publish(self, *days, generation=1):
        for name in days:
            interval = self.schedule.interval_named(name)
            span = {"start": format_time(interval.start), "end": format_time(interval.end)}
            fingerprint = hashlib.sha256(f"{name} {generation}".encode()).hexdigest()
            changed = {"interval": span, "generation": generation, "fingerprint": fingerprint}
            data = Manifest.model_validate(EMPTY | changed).to_bytes()
            place = self.folder.version(name, generation)
            place.mkdir(parents=True)
            (place / MANIFEST).write_bytes(data)
            (place / MANIFEST_DIGEST).write_text(hashlib.sha256(data).hexdigest() + "\n")

    def withdraw(self, day, generation=1):
        at = "2026-03-08T00:00:00Z"
        decided = {"who": "ada", "account": "ada", "why": "wrong labels", "at": at}
        write_withdrawal(self.folder, Withdrawal("clicks", day, generation, **decided))

    def remove(self, day, generation=1):
        self.folder.removal_mark(day, generation).touch()
        place = self.folder.version(day, generation)
        for file in place.iterdir():
            file.unlink()
        place.rmdir()


@pytest.fixture
def clicks(tmp_path):
    return Clicks(tmp_path / "root")
