"""A task that is cleared finds its decision carried out, whatever was decided or built since."""

from dataclasses import replace

import pytest

from tests.unit.withdrawal.conftest import ADA, DAY
from trainfeed.errors import NotFoundError
from trainfeed.withdrawal import restore, withdraw

RUN = replace(ADA, account="Airflow run withdraw/manual__1", is_run=True)
BEN = replace(ADA, who="ben")


def test_a_run_hides_no_correction_that_was_built_after_it(twice):
    withdraw(twice.env, "clicks", DAY, None, RUN)
    twice.edit("seed: 8", "seed: 9")
    twice.build(rebuild="corrected")
    again = withdraw(twice.env, "clicks", DAY, None, RUN)
    assert (again.mark.generation, again.readers_get, again.is_new) == (2, 3, False)


def test_a_run_hides_nothing_that_somebody_gave_back_after_it(twice):
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
