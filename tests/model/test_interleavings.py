"""Publishers, withdrawals, tags, retention, leases and readers on one interval, in many orders.

All scenarios and more orders: ``make nightly-interleavings``. The tests below that break the code
on purpose show that each invariant can be seen to fail.
"""

import pytest

from tests.model.interleavings import actors as _actors
from tests.model.interleavings.explore import Bound, Violation, explore
from tests.model.interleavings.roots import ground
from tests.model.interleavings.scenarios import SCENARIOS, Scenario
from trainfeed.pipeline import publish as _publish
from trainfeed.upkeep.retention import Context
from trainfeed.upkeep.retention import versions as _version_removal
from trainfeed.upkeep.withdrawal import Maker
from trainfeed.upkeep.withdrawal import decisions as _withdraw
from trainfeed.versions import tag as _tagging

IN_CI = ["publisher, withdrawal", "two withdrawals", "tag, withdrawal", "tag, retention"]


@pytest.fixture(scope="module")
def made():
    with ground() as made:
        yield made


@pytest.mark.parametrize(
    "name", [IN_CI[0], *(pytest.param(name, marks=pytest.mark.ci) for name in IN_CI[1:])]
)
def test_invariants_hold_in_the_first_orders(made, name):
    count = explore(Scenario(SCENARIOS[name], made), Bound(preemptions=1, crashes=1, schedules=20))
    assert count.states >= 100


def nothing(*_, **__):
    return None


def test_a_publication_that_looks_for_no_withdrawal_is_found(made, monkeypatch):
    monkeypatch.setattr(_publish, "require_wanted", nothing)
    with pytest.raises(Violation, match="g0003 is what g0002 was, which is withdrawn"):
        explore(Scenario(SCENARIOS["publisher, withdrawal"], made), Bound(0, 0))


@pytest.mark.nightly
def test_a_retention_that_looks_for_leases_only_once_is_found(made, monkeypatch):
    monkeypatch.setattr(Context, "fresh_uses", lambda context: context.uses)
    with pytest.raises(Violation, match=r"a leased version cannot be read|which is gone"):
        explore(Scenario(SCENARIOS["tag, retention"], made), Bound(1, 0))


@pytest.mark.nightly
def test_a_tag_that_does_not_look_again_is_found(made, monkeypatch):
    monkeypatch.setattr(_tagging, "_require_all_there", nothing)
    with pytest.raises(Violation, match="tag prod names g0001, which is gone"):
        explore(Scenario(SCENARIOS["tag, retention"], made), Bound(2, 0))


def test_a_removal_without_a_mark_is_found(made, monkeypatch):
    monkeypatch.setattr(_version_removal, "mark_removed", lambda *_, **__: True)
    with pytest.raises(Violation, match="g0001 is gone without a mark"):
        explore(Scenario(SCENARIOS["two retentions"], made), Bound(0, 0))


def test_a_withdrawal_that_is_in_no_history_is_found(made, monkeypatch):
    monkeypatch.setattr(Maker, "record", nothing)
    with pytest.raises(Violation, match=r"g0002\.withdrawn is in no history"):
        explore(Scenario(SCENARIOS["two withdrawals"], made), Bound(0, 0))


def test_an_error_that_is_none_of_trainfeed_is_found(made, monkeypatch):
    def fails(*_):
        raise ValueError("unexpected")

    monkeypatch.setattr(_withdraw, "write_withdrawal", fails)
    with pytest.raises(Violation, match="ValueError"):
        explore(Scenario(SCENARIOS["two withdrawals"], made), Bound(0, 0))


def test_a_reader_that_gets_samples_of_another_version_is_found(made, monkeypatch):
    monkeypatch.setitem(_actors.LABELS, 2, 7)
    with pytest.raises(Violation, match="AssertionError"):
        explore(Scenario(SCENARIOS["two withdrawals"], made), Bound(0, 0))
