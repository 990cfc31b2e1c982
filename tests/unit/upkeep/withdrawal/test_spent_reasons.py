"""A reason that a withdrawn version was built for is spent, also beside causes of outdatedness."""

import pytest

from tests.unit.upkeep.withdrawal.conftest import ADA, DAY
from trainfeed.errors import WithdrawnError
from trainfeed.pipeline import OutdatedRule
from trainfeed.upkeep.withdrawal import withdraw


@pytest.fixture
def again(project):
    return lambda why="fix": project.build(rebuild=why, outdated=OutdatedRule.REBUILD)


@pytest.mark.parametrize("why", ["fix", "a long reason " * 36])
def test_a_reason_before_causes_is_spent(project, again, why):
    project.edit("seed: 7", "seed: 8")
    assert again(why)["generation"] == "g0002"
    withdraw(project.env, "clicks", DAY, None, ADA)
    with pytest.raises(WithdrawnError, match="is that of a version withdrawn since"):
        again(why)
    assert again("another reason")["generation"] == "g0003"


def test_a_reason_for_an_interval_without_versions_is_spent(project, again):
    withdraw(project.env, "clicks", DAY, None, ADA)
    assert again()["generation"] == "g0002"
    withdraw(project.env, "clicks", DAY, None, ADA)
    with pytest.raises(WithdrawnError, match="is that of a version withdrawn since"):
        again()
