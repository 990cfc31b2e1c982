"""Trainers of a master whose versions are at a store: each reads its chunks from there."""

import multiprocessing
import signal
from dataclasses import replace

import pytest

from tests.support.memory_root import ROOT, memory_bucket, moved
from tests.unit.serving.dispatch.conftest import place, project
from tests.unit.serving.dispatch.masters import end, forked, known
from tests.unit.serving.dispatch.test_reader import read_and_hang, status_of
from trainfeed.errors import ConflictError, LoaderError
from trainfeed.files.stores import Location
from trainfeed.remote import roots as _roots
from trainfeed.serving.dispatch import TaskList

__all__ = ["memory_bucket", "place", "project"]

pytestmark = pytest.mark.usefixtures("socket_enabled")


@pytest.fixture
def root(place, memory_bucket):
    return moved(memory_bucket, place.root)


@pytest.fixture(params=["followed", "named"])
def afar(request, place, root):
    """The same place, whose master has indexes alone; trainers have its folder, or the address."""
    served = replace(place, root=root.state)
    if request.param == "named":
        served.root_of_trainers = ROOT
    return served


def test_a_pass_gives_every_sample_once_as_from_the_folder(place, root, afar):
    with afar.master():
        reader = afar.reader(name="clicks", split="train")
        assert sorted(map(known, reader())) == place.expected()
    assert reader.report.done == reader.report.leases == place.tasks().num_tasks > 10
    assert afar.tasks().digest == place.tasks().digest
    # The master has asked for none, and each chunk was one request.
    assert sum("clicks-train" in key for key in root.gets) == place.tasks().num_tasks


def test_another_trainer_reads_the_chunks_of_one_that_was_killed(place, afar):
    afar.rules = {"lease_seconds": 0.3}
    with afar.master():
        ours, theirs = multiprocessing.get_context("fork").Pipe()
        killed = forked(read_and_hang, afar, theirs)
        assert ours.recv() == 1
        end(killed, signal.SIGKILL)
        reader = afar.reader()
        assert sorted(map(known, reader())) == place.expected()
    assert reader.report.timeouts == 3
    assert reader.report.leases == reader.report.tasks + 3


def test_a_damaged_chunk_is_reported_with_its_object_and_the_others_are_read(place, root, afar):
    key = next(key for key in root.shards() if root.bucket.objects[key][0])
    root.flip(key)
    with afar.master():
        samples = []
        with pytest.raises(LoaderError, match="1 failed too often"):
            samples.extend(map(known, afar.reader()()))
        report = status_of(afar).ended[0]
    assert (report.done, report.failed, report.failures) == (report.tasks - 1, 1, 3)
    assert f"s3://bucket/{key}" in report.failed_tasks[0].reason
    assert set(samples) < set(place.expected())


def test_a_version_that_was_removed_stops_the_trainer(root, afar):
    with afar.master():
        for key in root.shards():
            del root.bucket.objects[key]
        with pytest.raises(LoaderError, match="3 tasks one after another could not be read here"):
            list(afar.reader(tasks_per_lease=1)())


def test_a_trainer_of_another_root_is_refused(place, root, afar, project):
    project.edit("chunk_bytes: 64", "chunk_bytes: 80")
    other = project.elsewhere("other")
    other.prebuilt()
    with replace(place, root=other.env.root).master() as process:
        afar.port = int((afar.path / "port").read_text())
        assert process.is_alive()
        with pytest.raises(ConflictError, match="expected the versions of the master"):
            list(afar.reader()())


@pytest.mark.parametrize("has_state", [True, False])
def test_a_master_of_the_configured_root_asks_for_no_shard(place, root, monkeypatch, has_state):
    monkeypatch.setenv("TRAINFEED_ROOT", ROOT)
    if has_state:
        monkeypatch.setenv("TRAINFEED_STATE", str(root.state))
    tasks = TaskList.of_range("clicks", place.asked, "train")
    assert tasks.digest == place.tasks().digest
    assert not any("/clicks-train-" in key for key in root.gets)


def test_a_trainer_may_read_a_copy_of_the_root_at_another_store(place, memory_bucket, monkeypatch):
    parse = Location.parse
    monkeypatch.setattr(_roots, "_location", lambda uri: parse(uri.removeprefix("hdfs://local")))
    place.root_of_trainers = f"hdfs://local{place.root}"
    with place.master():
        reader = place.reader()
        assert sorted(map(known, reader())) == place.expected()
    assert list((place.root.parent / "cache" / "parts").glob("*/*"))
