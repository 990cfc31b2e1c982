"""The simulated time index answers like Kafka's, also where that is "none" before later records."""

from __future__ import annotations

import numpy as np
import pytest

from tests.model.histories import draw_history
from tests.model.partition_log import NEVER, Entries, PartitionLog

LATER = 10_000


def log_of(stamps, *, segment=1 << 30, marker=(), aborted=(), compacted=(), open_until=()):
    """Return a partition whose entry ``i`` arrived at time ``i``."""
    count = len(stamps)

    def where(offsets):
        return np.isin(np.arange(count), list(offsets))

    entries = Entries(
        stamps=np.array(stamps, np.int64),
        arrived=np.arange(count),
        nominal=np.array(stamps, np.int64),
        is_main=np.ones(count, bool),
        is_marker=where(marker),
        committed=~where(aborted),
        txn=np.full(count, -1),
        txn_end=np.array([dict(open_until).get(i, 0) for i in range(count)]),
        compacted=np.where(where(compacted), 0, NEVER),
    )
    return PartitionLog(entries, np.arange(0, max(count, 1), segment), [], 0)


@pytest.mark.parametrize(("time", "offset"), [(0, 0), (11, 1), (20, 1), (21, 2), (41, None)])
def test_the_first_offset_stamped_at_or_after_a_time_is_given(time, offset):
    assert log_of([10, 20, 40, 30]).offset_at(LATER, time) == offset


def test_only_what_has_arrived_is_seen():
    log = log_of([10, 20, 30])
    assert (log.at(1).high_watermark, log.offset_at(1, 15), log.offset_at(1, 25)) == (2, 1, None)


def test_empty_first_segments_answer_none_for_every_time_up_to_their_last_append():
    log = log_of([10, 20, 30, 40, 5000], segment=2, compacted=[0, 1])
    assert log.offset_at(LATER, 1) is None
    # The file of the first segment was last written at time 1.
    assert log.offset_at(LATER, 2) == 2
    assert log.offset_at(LATER, 4000) == 4


def test_a_segment_without_stamps_answers_none_for_every_time_up_to_its_last_append():
    log = log_of([-1, -1, 30, 40], segment=2)
    assert (log.offset_at(LATER, 1), log.offset_at(LATER, 25)) == (None, 2)


def test_a_deleted_stamp_hides_later_segments():
    log = log_of([10, 9000, 30, 40], segment=2)
    log.deletions = [(5, 1)]
    assert log.offset_at(LATER, 35) == 1
    log = log_of([10, 9000, 20, 30, 40], segment=3)
    log.deletions = [(5, 2)]
    assert log.offset_at(LATER, 35) is None


def test_segments_below_the_log_start_are_gone():
    log = log_of([9000, 9001, 30, 40], segment=2)
    log.deletions = [(5, 2)]
    assert log.offset_at(LATER, 35) == 3


def test_an_open_transaction_hides_what_lies_behind_its_begin():
    log = log_of([10, 20, 30, 40], open_until={1: 500})
    assert (log.at(400).last_stable, log.at(400).high_watermark) == (1, 4)
    assert log.at(400).offsets.tolist() == [0]
    assert log.offset_at(400, 15) is None
    assert (log.offset_at(LATER, 15), log.at(LATER).last_stable) == (1, 4)


def test_markers_and_aborted_records_are_in_the_index_and_no_reader_sees_them():
    log = log_of([10, 20, 30, 40], marker=[1], aborted=[2])
    assert [log.offset_at(LATER, time) for time in (15, 25)] == [1, 2]
    assert log.at(LATER).offsets.tolist() == [0, 3]


def test_a_seed_gives_one_history_and_another_seed_another():
    first, again, other = draw_history(7), draw_history(7), draw_history(8)
    logs = [h.incarnations[0].partitions[0].entries.stamps for h in (first, again, other)]
    assert np.array_equal(logs[0], logs[1])
    assert first.attempts == again.attempts
    assert not np.array_equal(logs[0], logs[2])


def test_everything_that_disturbs_a_boundary_occurs():
    seen = set()
    for seed in range(300):
        history = draw_history(seed)
        seen.add(history.order)
        seen |= set(traits(history))
    assert seen == {
        "nightly", "outage", "random", "newest", "oldest", "recreated", "added", "several",
        "loaded later", "older log", "hourly", "moving", "retry", "burst", "unstamped", "compacted",
        "empty first segment", "aborted", "open at a build", "deleted", "micro", "idle", "bulk",
    }  # fmt: skip


def traits(history):
    windows, attempts = history.windows, history.attempts
    logs = [log for topic in history.incarnations for log in topic.partitions.values()]
    facts = {
        "recreated": len(history.incarnations) > 1,
        "several": len(history.incarnations[0].partitions) > 1,
        "older log": history.begin > 0,
        "hourly": windows.length == 3_600_000,
        "moving": history.step > 0,
        "retry": len({a.window for a in attempts}) < len(attempts),
        "loaded later": bool(attempts) and attempts[0].now > windows.end + 2 * windows.length,
    }
    yield from (name for name, holds in facts.items() if holds)
    for log in logs:
        entries = log.entries
        gone = entries.compacted < NEVER
        facts = {
            "added": log.created > windows.first,
            "burst": len(entries) > 0 and bool((~entries.is_main).sum() > 900),
            "unstamped": bool((entries.stamps < 0).any()),
            "compacted": bool(gone.any()),
            "empty first segment": len(log.segments) > 1 and bool(gone[: log.segments[1]].all()),
            "aborted": not entries.committed.all(),
            "open at a build": any(
                log.at(a.now).last_stable < log.at(a.now).high_watermark for a in attempts
            ),
            "deleted": bool(log.deletions),
            "micro": bool((entries.stamps > 1 << 50).any()),
            "idle": entries.is_main.sum() > 0 and entries.nominal[entries.is_main].max()
            < windows.start(1) < windows.end,
            "bulk": len(entries) > 20_000,
        }  # fmt: skip
        yield from (name for name, holds in facts.items() if holds)
