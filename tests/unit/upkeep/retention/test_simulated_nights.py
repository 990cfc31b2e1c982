"""Some simulated nights; `make nightly-retention` plays a year on a real HDFS and CephFS."""

import pytest

from tests.retention.measured import require_bounded
from tests.retention.nights import Nights
from tests.retention.two_sets import Rules
from trainfeed.upkeep.retention import landing as _landing_kind
from trainfeed.upkeep.retention import uses as _uses

# Everything ends within the nights of a short test.
SHORT = Rules(landing=3, intervals=9, withdrawn=2, views_landing=6, views_intervals=7)


def played(project, nights, seed=1):
    simulated = Nights(project, seed, SHORT, with_training=False)
    simulated.prepare(nights)
    return list(simulated.play(nights))


def test_two_data_sets_are_bounded_and_everything_in_use_stays(project):
    seen = played(project, 13)
    require_bounded(seen, SHORT)
    assert seen[-1].landing < seen[-1].landing_ever
    assert seen[-1].versions < seen[-1].versions_ever
    assert seen[-1].removed > 0


def test_landing_files_that_the_other_data_set_wants_are_missed(project, monkeypatch):
    monkeypatch.setattr(_landing_kind, "sharers_of", lambda *_: ())
    with pytest.raises(AssertionError, match="00000000000000000000-"):
        played(project, 8)


def test_a_rule_that_keeps_too_long_is_found(project, monkeypatch):
    of = Rules.clicks.fget
    later = of(SHORT).replace("landing: {keep_days: 3}", "landing: {keep_days: 4}")
    monkeypatch.setattr(Rules, "clicks", later)
    with pytest.raises(AssertionError):
        played(project, 8)


def test_a_tagged_version_that_goes_is_found(project, monkeypatch):
    users = tuple(each for each in _uses._USERS if each.__name__ != "used_by_tags")
    monkeypatch.setattr(_uses, "_USERS", users)
    with pytest.raises(AssertionError):
        played(project, 13)
