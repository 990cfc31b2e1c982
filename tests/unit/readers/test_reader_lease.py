"""An opened data set with a lease keeps its versions from retention."""

import pickle
import re
from datetime import UTC, datetime, timedelta

import pytest

from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.loader import open_intervals
from trainfeed.readers import open_dataset
from trainfeed.versions.lease import leased_versions, leases


@pytest.fixture
def built(project):
    project.prebuilt("2024-03-01")
    project.prebuilt("2024-03-02")
    return project


def held(project):
    return leased_versions(project.folder, datetime.now(UTC))


def opened(project, interval="2024-03-01/2024-03-02", lease=True, **more):
    root = project.env.root
    return open_dataset("clicks", interval=interval, split="train", root=root, lease=lease, **more)


def test_every_version_of_a_range_is_leased_until_the_end_of_the_block(built):
    with opened(built) as data:
        assert ("2024-03-01", 1) in held(built)
        assert ("2024-03-02", 1) in held(built)
        assert "open_dataset, split train since" in held(built).why("2024-03-02", 1)
        assert len(list(data.reader()())) == data.num_samples
    assert leases(built.folder) == []
    assert len(list(data.reader()())) == data.num_samples


def test_nothing_is_leased_unless_it_is_asked_for(built):
    with opened(built, lease=False) as data:
        assert data.lease is None
        assert leases(built.folder) == []


def test_a_generation_and_a_path_are_leased_too(built, monkeypatch):
    with opened(built, "2024-03-01", generation="g0001", lease=timedelta(minutes=5)) as data:
        assert ("2024-03-01", 1) in held(built)
        assert data.lease.lease.length == timedelta(minutes=5)
    path = built.version("2024-03-02").path
    monkeypatch.chdir(path.parent)
    for each in (path, "g0001"):
        with open_dataset(each, split="train", lease=True):
            assert ("2024-03-02", 1) in held(built)
            assert ("2024-03-01", 1) not in held(built)


def test_a_window_of_intervals_is_leased(built):
    names = ["2024-03-01", "2024-03-02"]
    window = open_intervals("clicks", names, split="train", root=built.env.root, lease=True)
    assert ("2024-03-02", 1) in held(built)
    window.dataset.close()
    assert leases(built.folder) == []


def test_a_copy_of_a_version_elsewhere_has_no_lease(built, tmp_path):
    copy = tmp_path / "copy"
    built.version("2024-03-01").path.rename(copy)
    with pytest.raises(ConfigError, match=r"below a publication root for a lease, got .*copy"):
        open_dataset(copy, split="train", lease=True)


def test_a_version_that_retention_marks_meanwhile_is_not_opened(built, monkeypatch):
    monkeypatch.setattr(
        "trainfeed.versions.lease.faults.point",
        lambda _: built.folder.removal_mark("2024-03-02", 1).touch(),
    )
    with pytest.raises(NotFoundError, match="clicks/2024-03-02/g0001 was removed by retention"):
        opened(built)
    assert leases(built.folder) == []


def test_a_reader_whose_lease_was_lost_stops_at_its_next_pass(built):
    with opened(built) as data:
        data.lease._holder.lost = NotFoundError("clicks/2024-03-01/g0001 was removed")
        with pytest.raises(NotFoundError, match=re.escape("g0001 was removed")):
            list(data.reader()())


def test_a_worker_relies_on_the_lease_of_its_parent(built):
    with opened(built) as data:
        copy = pickle.loads(pickle.dumps(data))
        assert copy.lease is None
        copy.close()
        assert ("2024-03-01", 1) in held(built)
