"""Some simulated nights; `make nightly-retention` plays a year on a real HDFS and CephFS."""

from tests.retention.nights import LANDING_DAYS, Nights


def test_landing_is_bounded_and_everything_in_use_stays(project, monkeypatch):
    monkeypatch.setattr("tests.retention.nights.LANDING_DAYS", 4)
    monkeypatch.setattr("tests.retention.nights.RULES", "retention: {landing: {keep_days: 4}}")
    assert LANDING_DAYS > 4
    nights = Nights(project, seed=1, with_training=False)
    nights.prepare(10)
    seen = [nights.run(number) for number in range(10)]
    a_night = seen[0].landing
    assert seen[-1].landing <= (4 + len(nights.tags) + len(nights.leases)) * 2 * a_night
    assert seen[-1].landing < seen[-1].landing_ever
    assert sum(night.removed for night in seen) > 0
