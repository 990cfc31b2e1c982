"""Broken records: how many a task keeps, and that nothing but the records decides about them."""

import pytest

from tests.unit.build.clicks import START_MS, batch
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
