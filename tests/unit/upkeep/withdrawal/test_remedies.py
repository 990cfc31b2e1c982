"""Who lacks an interval that people decided about is told what works, and the state stays."""

from datetime import UTC, datetime

import pytest

from tests.unit.upkeep.retention.test_intervals import DAYS, three
from tests.unit.upkeep.withdrawal.conftest import ADA
from trainfeed.errors import NotFoundError, RetiredError, WindowIncompleteError, WithdrawnError
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.readers import open_dataset
from trainfeed.upkeep.retention import Context, retire
from trainfeed.upkeep.withdrawal import withdraw
from trainfeed.versions import cover
from trainfeed.versions.retire import generation_for_readers, missing_remedies

__all__ = ["three"]
RANGE = f"{DAYS[0]}/{DAYS[2]}"
RESTORE = "trainfeed restore clicks/{}/g0001 --why WHY"
BUILD = "trainfeed build clicks --interval {}"


@pytest.fixture
def decided(three):
    """The first day is retired, the second is withdrawn."""
    retire(Context.of(three.spec, three.env, who="ann"), DAYS[0], "older than the audit")
    withdraw(three.env, "clicks", DAYS[1], None, ADA)
    return three


def state(project, day):
    now = datetime(2024, 3, 20, tzinfo=UTC)
    attempts = Attempts(Location.parse(project.env.work), now)
    found = dataset_status(project.folder, datasets=None, attempts=attempts, now=now)
    return next(each.state for each in found.intervals if each.interval == day)


def test_a_range_names_for_each_decision_what_works(decided):
    with pytest.raises(WindowIncompleteError) as caught:
        open_dataset("clicks", interval=RANGE, split="train", root=decided.env.root)
    told = str(caught.value)
    assert RESTORE.format(DAYS[1]) in told
    assert BUILD.format(DAYS[0]) + " --rebuild WHY" in told
    assert BUILD.format(DAYS[1]) not in told
    assert "labels of yesterday" in told


def test_one_interval_names_it_as_well(decided):
    with pytest.raises(NotFoundError) as caught:
        generation_for_readers(decided.folder, DAYS[1])
    assert RESTORE.format(DAYS[1]) in str(caught.value)
    assert BUILD.format(DAYS[1]) not in str(caught.value)
    with pytest.raises(NotFoundError) as caught:
        generation_for_readers(decided.folder, DAYS[0])
    assert BUILD.format(DAYS[0]) + " --rebuild WHY" in str(caught.value)


def test_a_plain_build_is_named_for_what_nobody_decided_about(decided):
    found = cover(decided.folder, f"{DAYS[0]}/2024-03-05")
    assert found.remedy.count("trainfeed build") == 2  # the retired day; the two days never built
    assert BUILD.format("2024-03-04/2024-03-05") in found.remedy
    (told,) = missing_remedies(decided.folder, ["2024-03-09"])
    assert told == f"build it: {BUILD.format('2024-03-09')}"


def test_what_was_withdrawn_and_removed_cannot_be_given_back(decided):
    place = decided.folder.version(DAYS[1], 1)
    place.rename(place.with_name("elsewhere"))
    (told,) = missing_remedies(decided.folder, [DAYS[1]])
    assert told == f"build it: {BUILD.format(DAYS[1])}"


@pytest.mark.parametrize(
    ("day", "error", "expected"),
    [(DAYS[0], RetiredError, "retired"), (DAYS[1], WithdrawnError, "withdrawn")],
)
def test_a_refused_build_leaves_the_state_that_a_person_decided(decided, day, error, expected):
    assert state(decided, day) == expected
    with pytest.raises(error):
        decided.build(day)
    assert state(decided, day) == expected
