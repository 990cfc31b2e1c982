"""Broken records: how many a task keeps, and that only the records themselves decide this."""

import pytest

from tests.unit.pipeline.clicks import START_MS, batch
from tests.unit.pipeline.log_project import make_log_project
from trainfeed.errors import MemoryLimitError


def broken(project, count, size=60_000):
    """Records that are no JSON, in three partitions."""
    for_each = [
        [{"value": bytes([97 + i % 26]) * size, "timestamp": START_MS + i} for i in range(count)]
        for _ in range(3)
    ]
    project.record({p: [batch(rows)] for p, rows in enumerate(for_each)})


def resources(project, text):
    project.edit("seed: 7", f"seed: 7\nresources: {{{text}}}")
    return project


def published(project, name, text):
    other = project.elsewhere(name)
    resources(other, text).build()
    other.edit(f"\nresources: {{{text}}}", "")
    return other.version()


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_quarantined_bytes_are_bounded_whatever_the_number_of_processes(project, processes):
    broken(project, 10)
    resources(project, f"memory_bytes: 1MiB, processes: {processes}")
    with pytest.raises(MemoryLimitError, match=r"quarantined records of one task .* = 1048576"):
        project.build()


def test_a_task_may_keep_as_much_beside_others_as_alone(project):
    broken(project, 25)
    limits = "memory_bytes: 2MiB, records_per_task: 25"
    alone = published(project, "alone", limits)
    beside = published(project, "beside", f"{limits}, processes: 3")
    assert beside.manifest_sha256 == alone.manifest_sha256


@pytest.mark.parametrize("size", [50, 60_000])
def test_published_quarantine_is_a_function_of_the_records(project, size):
    broken(project, 25, size)
    expected = published(project, "expected", "processes: 1")
    for number, text in enumerate(
        ["processes: 2", "processes: 3", "memory_bytes: 5MiB", "memory_bytes: 5MiB, processes: 2"]
    ):
        found = published(project, f"other-{number}", text)
        assert found.manifest.files == expected.manifest.files, text
        assert found.manifest_sha256 == expected.manifest_sha256, text


def logs_of_broken_lines(tmp_path, line, count, text):
    project = make_log_project(tmp_path)
    for path in project.logs.glob("part-*"):
        path.unlink()
    (project.logs / "part-0.txt").write_bytes(line * count)
    project.edit("seed: 7", f"seed: 7\nresources: {{{text}}}")
    # By the size of the file there would be thousands of shards, all of them empty.
    project.edit("samples_per_shard: 50", "shards: 2")
    return project


@pytest.mark.parametrize(("line", "count"), [(b"\n", 400_000), (b"x" * 200 + b"\n", 100_000)])
def test_what_a_worker_holds_of_broken_records_is_bounded_whatever_they_are(tmp_path, line, count):
    """As one Python object each, they take 300 MB and more, on top of 150 MB of the worker."""
    limits = "memory_bytes: 64MiB, worker_memory_bytes: 256MiB"
    project = logs_of_broken_lines(tmp_path, line, count, limits)
    assert project.build()["quarantined"] == count
    manifest = project.version().manifest
    assert manifest.quarantine == {"records": count, "reasons": {"not_json": count}}


def test_messages_and_positions_count_as_what_quarantine_keeps(tmp_path):
    project = logs_of_broken_lines(tmp_path, b"\n", 40_000, "memory_bytes: 1MiB")
    with pytest.raises(MemoryLimitError, match=r"quarantined records of one task .* = 1048576"):
        project.build()


def test_what_is_written_in_pieces_is_published_as_what_is_written_at_once(tmp_path):
    line = bytes(range(32, 127)) * 10 + b"\n"
    published = []
    for number, memory in enumerate(["3MiB", "512MiB"]):
        path = tmp_path / str(number)
        path.mkdir()
        project = logs_of_broken_lines(path, line, 1500, f"memory_bytes: {memory}")
        project.build()
        published.append({file.name: file.sha256 for file in project.version().manifest.files})
    assert published[0] == published[1]
