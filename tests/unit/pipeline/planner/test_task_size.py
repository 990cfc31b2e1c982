"""Tasks of a large interval are as large as one sorted run; what is landed stays as it is."""

import numpy as np
import pyarrow as pa
import pytest

from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import PlannedInput, PlannedRange, cut, load_plan
from trainfeed.pipeline.sorting.collector import SampleBlock, SampleSorter
from trainfeed.pipeline.tasks import Sizes, group_ranges
from trainfeed.samples import Schema

RECORDS = 100_000


def inputs(records):
    return {
        "kafka:clicks/0": PlannedInput(
            start=0,
            end=records,
            connection="kafka_default",
            topic="clicks",
            topic_uuid="",
            cluster="",
            partition=0,
        )
    }


def tasks(project, records):
    """The records of every task, and the ranges."""
    sizes = Sizes.of(project.spec).grown(project.spec, inputs(records))
    ranges = cut(inputs(records), sizes.range_span)
    groups = group_ranges(ranges, sizes.task_span)
    return [sum(ranges[i].end - ranges[i].start for i in group) for group in groups], ranges


def resources(project, **settings):
    values = ", ".join(f"{name}: {value}" for name, value in settings.items())
    project.edit("seed: 7", f"seed: 7\nresources: {{{values}}}")
    return project


@pytest.mark.parametrize(
    ("settings", "records", "most"),
    [
        ({}, 1_599_999, 1),
        ({}, 3_200_000, 2),
        ({}, 6_400_000, 4),
        ({}, 50_000_000, 4),  # then a task that is done again takes too long
        ({"memory_bytes": "128MiB"}, 50_000_000, 3),
        ({"memory_bytes": "32MiB"}, 50_000_000, 1),
        ({"processes": 4}, 50_000_000, 3),
        ({"records_per_task": 100_000}, 50_000_000, 1),
    ],
    ids=str,
)
def test_a_task_has_several_ranges_while_they_fit_into_one_run(project, settings, records, most):
    found, ranges = tasks(resources(project, **settings) if settings else project, records)
    assert max(found) == most * RECORDS
    assert len(found) >= min(16, records // RECORDS)
    # Landing files are named by their ranges: those of an interval that is built again are used.
    assert {r.end - r.start for r in ranges} <= {RECORDS, records % RECORDS}


def test_tasks_do_not_grow_where_nobody_knows_the_size_of_a_sample(project):
    project.edit("{dtype: float32}", "{dtype: str}")
    found, _ = tasks(project, 10_000_000)
    assert set(found) == {RECORDS}


@pytest.mark.parametrize("num_ranges", [512, 513, 600, 1_000, 1_023, 2_000, 10_048])
def test_no_task_of_a_very_large_interval_takes_what_the_others_leave(num_ranges):
    ranges = cut(inputs(num_ranges * RECORDS), RECORDS)
    groups = group_ranges(ranges, RECORDS)
    assert [index for group in groups for index in group] == list(range(num_ranges))
    assert len(groups) <= 512
    assert max(map(len, groups)) == -(-num_ranges // 512)


def test_one_large_file_among_many_small_ones_leaves_them_apart():
    ranges = [
        PlannedRange(source=f"{n}", start=0, end=10**10 if n == 7 else 10) for n in range(2_000)
    ]
    sizes = [sum(ranges[i].end for i in group) for group in group_ranges(ranges, 10)]
    assert len(sizes) <= 512
    assert sorted(sizes)[-2] <= 50


@pytest.mark.parametrize("processes", [1, 4])
def test_the_samples_of_a_grown_task_fit_into_the_run_of_one_process(project, processes):
    resources(project, memory_bytes="128MiB", processes=processes)
    spec = project.spec
    (largest, *_), _ = tasks(project, 50_000_000)
    known = load_plan(project.folder, plan(spec, project.interval(), project.env).ref)
    sorter = SampleSorter(spec, known, spec.resources.memory_bytes // processes, {})
    encoded = pa.array([bytes(Schema.from_json(known.fields).record_dtype.itemsize)] * RECORDS)
    for first in range(0, largest, RECORDS):
        block = SampleBlock(
            known.sources[0],
            np.arange(first, first + RECORDS),
            np.zeros(RECORDS, np.int32),
            np.zeros(RECORDS, np.int64),
            encoded.cast(pa.large_binary()),
            None,
            0,
        )
        assert not first or sorter.has_room(block)
        sorter.add(block)
