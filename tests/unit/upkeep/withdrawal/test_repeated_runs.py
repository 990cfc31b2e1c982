"""A task that is cleared finds its decision carried out, whatever was decided or built since."""

from dataclasses import replace

import pytest

from tests.unit.upkeep.withdrawal.conftest import ADA, DAY
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.upkeep.withdrawal import restore, withdraw

RUN = replace(
    ADA,
    account="Airflow run withdraw/manual__1",
    request="withdraw/manual__1 of 2026-03-08T00:00:00Z",
)
BEN = replace(ADA, who="ben")


def test_a_run_hides_no_correction_that_was_built_after_it(twice):
    withdraw(twice.env, "clicks", DAY, None, RUN)
    twice.edit("seed: 8", "seed: 9")
    twice.prebuilt(rebuild="corrected")
    again = withdraw(twice.env, "clicks", DAY, None, RUN)
    assert (again.mark.generation, again.readers_get, again.is_new) == (2, 3, False)


def test_a_run_hides_nothing_that_another_person_gave_back_after_it(twice):
    withdraw(twice.env, "clicks", DAY, None, RUN)
    restore(twice.env, "clicks", DAY, None, BEN)
    again = withdraw(twice.env, "clicks", DAY, None, RUN)
    assert (again.mark.generation, again.readers_get, again.is_new) == (2, 2, False)


@pytest.mark.parametrize("maker", [RUN, BEN])
def test_a_restoration_that_is_repeated_gives_no_other_generation_back(twice, maker):
    withdraw(twice.env, "clicks", DAY, 2, ADA)
    withdraw(twice.env, "clicks", DAY, 1, replace(ADA, why="privacy"))
    assert restore(twice.env, "clicks", DAY, None, maker).is_new
    again = restore(twice.env, "clicks", DAY, None, maker)
    assert (again.mark.generation, again.readers_get, again.is_new) == (2, 2, False)
    assert twice.folder.generations(DAY) == [2]


def test_what_another_person_gave_back_is_no_success_of_this_one(twice):
    withdraw(twice.env, "clicks", DAY, None, ADA)
    restore(twice.env, "clicks", DAY, None, ADA)
    with pytest.raises(NotFoundError, match="nothing of clicks/2024-03-01 is withdrawn"):
        restore(twice.env, "clicks", DAY, None, BEN)


def test_a_person_may_give_the_same_back_again(twice):
    for _ in range(2):
        withdraw(twice.env, "clicks", DAY, None, ADA)
        assert restore(twice.env, "clicks", DAY, None, ADA).is_new


def test_a_later_run_with_the_same_id_is_another_decision(twice):
    withdraw(twice.env, "clicks", DAY, None, RUN)
    restore(twice.env, "clicks", DAY, None, BEN)
    later = replace(RUN, request="withdraw/manual__1 of 2026-04-08T00:00:00Z")
    assert withdraw(twice.env, "clicks", DAY, None, later).is_new


@pytest.mark.parametrize(("generation", "change"), [(None, {"why": "another"}), (1, {})])
def test_a_run_is_not_asked_for_something_else_later(twice, generation, change):
    withdraw(twice.env, "clicks", DAY, None, RUN)
    with pytest.raises(ConflictError, match=r"carried out another request.*start a new run"):
        withdraw(twice.env, "clicks", DAY, generation, replace(RUN, **change))
    assert twice.folder.generations(DAY) == [1]


@pytest.mark.parametrize("change", [{"why": "labels were wrong"}, {"who": "ben"}])
def test_an_older_generation_is_withdrawn_by_its_name_only(twice, change):
    withdraw(twice.env, "clicks", DAY, None, ADA)
    other = replace(ADA, **change)
    with pytest.raises(ConflictError, match=r"g0002 was withdrawn .*2024-03-01/g0001 --why"):
        withdraw(twice.env, "clicks", DAY, None, other)
    assert withdraw(twice.env, "clicks", DAY, 1, other).is_new
