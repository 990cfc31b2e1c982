"""Trainers that read what a master lends, over real versions and a real server."""

import multiprocessing
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.serving.dispatch.masters import end, forked, known
from trainfeed.decorators import batch
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    LoaderError,
    ServiceDeniedError,
    ServiceRefusedError,
    ServiceUnreachableError,
)
from trainfeed.readers import dispatched
from trainfeed.serving.dispatch import MasterClient

pytestmark = pytest.mark.usefixtures("socket_enabled")


def status_of(place):
    with MasterClient(place.url, place.access) as client:
        return client.status()


def test_one_trainer_reads_every_sample_once_in_every_pass(place):
    with place.master():
        reader = place.reader(name="clicks", split="train")
        passes = [list(map(known, reader())) for _ in range(2)]
        assert passes[0] != passes[1]
        for samples in passes:
            assert sorted(samples) == place.expected()
        assert reader.report == status_of(place).ended[1]
    assert reader.report.done == reader.report.leases == place.tasks().num_tasks > 10
    assert reader.report.ignored == reader.report.timeouts == 0


def test_two_trainers_share_a_pass(place):
    with place.master():
        with ThreadPoolExecutor(2) as threads:
            both = list(threads.map(list, [place.reader(tasks_per_lease=n)() for n in (1, 3)]))
        assert sorted(map(known, both[0] + both[1])) == place.expected()


def test_a_task_is_finished_when_the_item_after_its_last_sample_is_asked_for(place):
    with place.master():
        trainer = place.reader(tasks_per_lease=1)()
        number = place.tasks().chunks(place.tasks().order(0)[0])[0].chunk.info.num_records
        for _ in range(number):
            next(trainer)
        trainer.close()
        assert (status_of(place).current.done, status_of(place).current.returns) == (0, 1)
        trainer = place.reader(tasks_per_lease=1)()
        for _ in range(number + 1):
            next(trainer)
        assert (status_of(place).current.done, status_of(place).pending) == (1, 1)
        trainer.close()


def test_a_trainer_that_leaves_gives_its_tasks_back(place):
    with place.master():
        trainer = place.reader(tasks_per_lease=5)()
        next(trainer)
        assert status_of(place).pending == 5
        trainer.close()
        status = status_of(place)
        assert (status.pending, status.current.returns) == (0, 5)
        samples = list(map(known, place.reader()()))
        assert sorted(samples) == place.expected()


def test_a_decorator_that_collects_samples_loses_none(place):
    with place.master():
        batches = list(batch(place.reader(), 7)())
        assert sorted(known(sample) for each in batches for sample in each) == place.expected()


def read_and_hang(place, pipe):
    trainer = place.reader(tasks_per_lease=3)()
    next(trainer)
    pipe.send(1)
    signal.pause()


def test_the_tasks_of_a_killed_trainer_and_of_one_that_hangs_are_read_by_another(place):
    place.rules = {"lease_seconds": 0.3}
    with place.master():
        ours, theirs = multiprocessing.get_context("fork").Pipe()
        killed, hangs = (forked(read_and_hang, place, theirs) for _ in range(2))
        assert [ours.recv(), ours.recv()] == [1, 1]
        end(killed, signal.SIGKILL)
        reader = place.reader()
        assert sorted(map(known, reader())) == place.expected()
        end(hangs, signal.SIGKILL)
    assert reader.report.timeouts == 6
    assert reader.report.leases == reader.report.tasks + 6


def test_a_master_that_is_killed_goes_on_from_its_state(place):
    process = place.start()
    trainer = place.reader(tasks_per_lease=2)()
    samples = [next(trainer) for _ in range(20)]
    before = status_of(place)
    end(process, signal.SIGKILL)
    process = place.start()
    after = status_of(place)
    assert after.current.done == before.current.done > 0
    assert after.pending == before.pending
    samples += trainer
    assert sorted(map(known, samples)) == place.expected()
    report = status_of(place).ended[0]
    assert (report.leases, report.ignored) == (report.tasks, 0)
    end(process)


def test_a_chunk_that_cannot_be_read_is_reported_and_the_others_are_read(place):
    tasks = place.tasks()
    bad = tasks.chunks(3)[0]
    data = bytearray(bad.path.read_bytes())
    middle = bad.chunk.info.offset_bytes + bad.chunk.info.stored_bytes // 2
    data[middle] ^= 0xFF
    bad.path.chmod(0o644)
    bad.path.write_bytes(data)
    with place.master():
        samples, trainer = [], place.reader()()
        with pytest.raises(LoaderError, match=r"1 failed too often: task 3 \(2024-03-01/g0001/"):
            samples.extend(map(known, trainer))
        report = status_of(place).ended[0]
    assert len(samples) == samples_without(tasks, 3)
    assert (report.done, report.failed, report.failures) == (report.tasks - 1, 1, 3)
    assert "ChecksumError" in report.failed_tasks[0].reason


def samples_without(tasks, left_out):
    return sum(
        span.chunk.info.num_records
        for task in range(tasks.num_tasks)
        for span in tasks.chunks(task)
        if task != left_out
    )


def test_a_trainer_without_the_shards_stops_and_blames_no_task_twice(place):
    with place.master():
        for path in place.tasks().versions[0].shard_paths("train"):
            path.rename(path.with_suffix(".away"))
        with pytest.raises(LoaderError, match="3 tasks one after another could not be read here"):
            list(place.reader(tasks_per_lease=1)())
        current = status_of(place).current
        assert (current.failures, current.failed) == (3, 0)


def test_a_shard_with_more_in_it_than_its_manifest_says_is_not_read(place):
    with place.master():
        for path in place.tasks().versions[0].shard_paths("train"):
            path.chmod(0o644)
            path.write_bytes(path.read_bytes() + b"more")
        with pytest.raises(LoaderError, match="3 tasks one after another could not be read here"):
            list(place.reader(tasks_per_lease=1)())


def test_a_master_of_another_data_set_or_root_is_refused(place, project):
    with place.master():
        with pytest.raises(ConfigError, match="expected a master of views"):
            list(place.reader(name="views")())
        with pytest.raises(ConfigError, match="split eval"):
            list(place.reader(split="eval")())
        other = project.elsewhere("other")
        project.edit("chunk_bytes: 64", "chunk_bytes: 80")
        other.prebuilt()
        place.root, root = other.env.root, place.root
        with pytest.raises(ConflictError, match="expected the versions of the master"):
            list(place.reader()())
        place.root = root


def test_a_master_that_serves_other_data_now_is_refused_within_a_pass(place):
    process = place.start()
    trainer = place.reader(tasks_per_lease=1)()
    next(trainer)
    end(process, signal.SIGKILL)
    (place.path / "state").unlink()
    place.chunks_per_task = 2
    process = place.start()
    with pytest.raises(ServiceRefusedError, match="serves other versions now"):
        list(trainer)
    end(process)


def test_a_wrong_token_is_refused(place):
    with place.master():
        place.token_file.write_text("wrong")
        with pytest.raises(ServiceDeniedError, match="TokenRefused"):
            list(place.reader()())


def test_a_master_that_is_away_is_one_clear_error(place):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    reader = dispatched(url, access=place.access, patience_seconds=0.2)
    with pytest.raises(ServiceUnreachableError, match="look whether the server runs"):
        list(reader())


def test_after_the_last_pass_the_master_ends_and_trainers_are_told(place):
    place.rules = {"passes": 1}
    with place.master() as process:
        reader = place.reader()
        assert sorted(map(known, reader())) == place.expected()
        with pytest.raises(LoaderError, match="has ended all of its 1"):
            list(reader())
        process.join(60)
        assert process.exitcode == 0


def test_a_number_of_tasks_that_makes_no_sense_is_refused(place):
    with pytest.raises(ConfigError, match="expected 1 to 1000 tasks per lease, got 0"):
        place.reader(tasks_per_lease=0)
