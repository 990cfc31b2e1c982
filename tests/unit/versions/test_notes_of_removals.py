"""Retirements and notes of removals say what they are about, and count in their own place alone."""

import pytest

from tests.support.roots import reseal
from trainfeed.versions import DatasetFolder
from trainfeed.versions.interval_notes import (
    LandingRemoval,
    told_landing_removal,
    write_landing_removal,
)
from trainfeed.versions.retire import (
    Retirement,
    begun_retirement,
    lift_retirement,
    write_retirement,
)

DAYS = ("2026-01-01", "2026-01-02")
AT = "2026-03-08T00:00:00Z"


@pytest.fixture
def folders(tmp_path):
    return [DatasetFolder(tmp_path, name) for name in ("clicks", "views")]


def retire(folder, day):
    retirement = Retirement(day, 1, who="ada", account="ada", why=f"{day} is too old", at=AT)
    write_retirement(folder, retirement)
    return retirement


def told_landing(folder, day):
    write_landing_removal(folder, day, LandingRemoval(AT, "keep_days: 30", int(day[-1])))
    return told_landing_removal(folder, day)


def test_a_retirement_is_read_as_written_until_it_is_lifted(folders):
    folder = folders[0]
    assert begun_retirement(folder, DAYS[0]) is None
    retirement = retire(folder, DAYS[0])
    assert begun_retirement(folder, DAYS[0]) == retirement
    lift_retirement(folder, DAYS[0])
    lift_retirement(folder, DAYS[0])
    assert begun_retirement(folder, DAYS[0]) is None


def test_a_retirement_of_another_interval_or_data_set_retires_and_names_nobody(folders):
    for folder in folders:
        for day in DAYS:
            retire(folder, day)
    path = folders[0].retirement(DAYS[0])
    for other in (folders[0].retirement(DAYS[1]), folders[1].retirement(DAYS[0])):
        path.write_bytes(other.read_bytes())
        found = begun_retirement(folders[0], DAYS[0])
        assert str(path) in found.damage
        assert (found.who, found.why) == ("", "")


def test_a_retirement_of_before_has_no_data_set(folders):
    retirement = retire(folders[0], DAYS[0])
    reseal(folders[0].retirement(DAYS[0]), dataset=None)
    assert begun_retirement(folders[0], DAYS[0]) == retirement


def test_a_note_about_landing_files_of_another_interval_or_data_set_tells_nothing(folders):
    told = told_landing(folders[0], DAYS[0])
    assert "removed 1 landing files of clicks/2026-01-01" in told
    path = folders[0].landing_removal(DAYS[0])
    for folder, day in ((folders[0], DAYS[1]), (folders[1], DAYS[0])):
        told_landing(folder, day)
        path.write_bytes(folder.landing_removal(day).read_bytes())
        found = told_landing_removal(folders[0], DAYS[0])
        assert str(path) in found
        assert "removed 2" not in found
        assert "removed 1" not in found


def test_a_note_of_before_does_not_say_what_it_is_about(folders):
    told = told_landing(folders[0], DAYS[0])
    reseal(folders[0].landing_removal(DAYS[0]), dataset=None, interval=None)
    assert told_landing_removal(folders[0], DAYS[0]) == told
