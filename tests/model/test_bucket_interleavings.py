"""Publishers, withdrawals, tags, retention and leases on a root in a bucket, in many orders.

The tests that break the code on purpose show that each invariant can be seen to fail.
"""

import pytest

from tests.model.interleavings.bucket_orders import PLOTS, Violation, bucket_ground, explore
from trainfeed.files.stores import s3 as _s3
from trainfeed.upkeep.retention import Context
from trainfeed.upkeep.retention import versions as _removal
from trainfeed.versions import state_folder as _state_folder
from trainfeed.versions import tag as _tagging
from trainfeed.versions.bucket_objects import place_in_bucket

IN_MAKE_TEST = ["publisher, withdrawal", "tag, retention", "lease, retention"]


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Each exploration begins with the same data set."""
    path = tmp_path_factory.mktemp("bucket")
    with pytest.MonkeyPatch.context() as patched, bucket_ground(path, patched) as ground:
        yield ground


@pytest.mark.parametrize(
    "name",
    [
        *IN_MAKE_TEST,
        *(pytest.param(name, marks=pytest.mark.ci) for name in PLOTS if name not in IN_MAKE_TEST),
    ],
)
def test_invariants_hold_in_some_orders(ground, name):
    count = explore(ground, PLOTS[name], schedules=10)
    assert count.turns > 50


@pytest.mark.nightly
@pytest.mark.parametrize("name", PLOTS)
def test_invariants_hold_in_all_orders_with_one_preemption_and_one_crash(ground, name):
    count = explore(ground, PLOTS[name], schedules=None if len(PLOTS[name].acts) == 2 else 3000)
    assert count.whole or len(PLOTS[name].acts) > 2


def nothing(*_, **__):
    return None


def test_a_publication_that_does_not_look_again_is_found(ground, monkeypatch):
    monkeypatch.setattr(_state_folder, "_look_again", nothing)
    with pytest.raises(Violation, match="which was withdrawn before its manifest"):
        explore(ground, PLOTS["publisher, withdrawal"], crashes=0)


def test_a_store_that_lets_two_win_is_found(ground, monkeypatch):
    """Two withdrawals that both count."""
    monkeypatch.setattr(_s3.S3FileSystem, "create", _overwrites)
    with pytest.raises(Violation, match="an entry of the log was changed"):
        explore(ground, PLOTS["two withdrawals"], crashes=0)


def _overwrites(fs, path, data, metadata=None):
    fs.put(path, data, attributes=metadata or {})
    return True


@pytest.mark.nightly
def test_a_retention_that_looks_for_leases_only_once_is_found(ground, monkeypatch):
    """Retention stands before its mark, and the reader while it reads: two preemptions."""
    monkeypatch.setattr(Context, "fresh_uses", lambda context: context.uses)
    with pytest.raises(Violation, match="a leased version cannot be read"):
        explore(ground, PLOTS["lease, retention"], preemptions=2, crashes=0)


def test_a_tag_that_does_not_look_again_is_found(ground, monkeypatch):
    monkeypatch.setattr(_tagging, "_require_all_there", nothing)
    with pytest.raises(Violation, match="a tag names g0001, which is gone"):
        explore(ground, PLOTS["tag, retention"])


def test_files_that_go_before_the_folder_that_shows_them_again_are_found(ground, monkeypatch):
    """A killed removal would be taken back, with its files gone."""
    delete = _removal.delete_files

    def objects_first(folder, interval, generation):
        path = folder.version(interval, generation)
        if path.exists():
            place_in_bucket(path).delete()
        delete(folder, interval, generation)

    monkeypatch.setattr(_removal, "delete_files", objects_first)
    with pytest.raises(Violation, match="g0001 is gone without a mark"):
        explore(ground, PLOTS["tag, retention"])


def test_a_follower_that_keeps_what_is_not_in_the_log_is_found(ground, monkeypatch):
    monkeypatch.setattr(_state_folder._State, "_undo", nothing)
    with pytest.raises(Violation, match="does not have what the log has"):
        explore(ground, PLOTS["two withdrawals"])
