"""The random logs of tests/model on a real broker: its transactions, its cleaner, its deletions.

In stretches of ten logs: one here, as many as TEST_MODEL_STRETCHES says every night.
"""

from __future__ import annotations

import os
from itertools import count

import numpy as np
import pytest

from tests.model.builds import Project, build_history
from tests.model.histories import draw_history
from tests.model.oracle import judge
from tests.model.played_topic import PlayedTopic, playable
from tests.model.promises import broken

MAX_ENTRIES = 700
STRETCHES = int(os.environ.get("TEST_MODEL_STRETCHES", "1"))


def logs_of(history):
    return [log for topic in history.incarnations for log in topic.partitions.values()]


def has_transactions(history):
    return any((log.entries.txn >= 0).any() for log in logs_of(history))


def has_open_transactions(history):
    return any(
        log.at(attempt.now).last_stable < log.at(attempt.now).high_watermark
        for log in logs_of(history)
        for attempt in history.attempts
    )


def is_compacted(history):
    return any((log.entries.compacted < np.iinfo(np.int64).max).any() for log in logs_of(history))


def has_deletions(history):
    return any(log.deletions for log in logs_of(history))


def is_replaced(history):
    return len(history.incarnations) > 1


def is_plain(history):
    return not has_transactions(history) and not is_compacted(history)


def is_loaded_and_compacted(history):
    """Whether the cleaner can be waited for: nothing is built while the log grows."""
    is_late = history.order in {"newest", "oldest"}
    return is_late and is_compacted(history)


WANTED = (
    has_transactions, is_loaded_and_compacted, has_deletions, is_plain, has_open_transactions,
    is_compacted, has_deletions, is_replaced, has_transactions, is_plain,
)  # fmt: skip


def is_small(history):
    logs = logs_of(history)
    entries = sum(len(log.entries) for log in logs)
    markers = sum(int(log.entries.is_marker.sum()) for log in logs)
    # The client library writes the present time in place of no stamp.
    stamped = all((log.entries.stamps[~log.entries.is_marker] > 0).all() for log in logs)
    return 20 < entries <= MAX_ENTRIES and markers <= 60 and stamped


def draw(stretch):
    """Yield ten histories, one for every thing that is wanted."""
    seeds = count(stretch * 100_000)
    for wanted in WANTED:
        yield next(h for seed in seeds if is_small(h := draw_history(seed)) and wanted(h))


@pytest.fixture
def servers():
    return os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("stretch", range(STRETCHES))
def test_every_committed_record_is_in_one_version_or_named(servers, tmp_path, stretch):
    project = Project(tmp_path)
    logs = [Log(servers, history) for history in draw(stretch)]
    for log in logs:
        if log.topic.compact:
            log.topic.play(log.history.attempts[0].now)
    # The cleaner looks for work every 15 s: first what it has none with.
    for log in sorted(logs, key=lambda log: log.topic.compact):
        if log.topic.compact:
            log.topic.wait_for_cleaner()
        outcome = log.build(project)
        counts, lines = judge(log.history, outcome)
        # Rates are held where there are enough logs for them; see tests/model.
        del counts["empty_wrong"]
        assert broken(counts, needless=0, most_needless=0) == [], (log.history.seed, lines)
        if is_plain(log.history):
            assert ranges(outcome) == ranges(build(project, log.history, "simulated"))
    assert any(log.num_cleaned for log in logs)


class Log:
    """A history, the topic that plays it, and what its cleaner took away."""

    def __init__(self, servers, history):
        self.history = playable(history)
        self.topic = PlayedTopic(servers, self.history, compact=is_compacted(history))
        self.num_cleaned = 0

    def build(self, project):
        """Build everything, and hold what a consumer of its own read against the history."""
        outcome = build(project, self.history, "played", self.topic)
        self.topic.drop()
        for incarnation in self.history.incarnations:
            last = min(self.history.closing, incarnation.deleted - 1)
            left = self.topic.left(incarnation.uuid)
            for number, log in incarnation.partitions.items():
                self._hold(log, log.at(last).offsets.tolist(), left.get(number, {}))
        return outcome

    def _hold(self, log, expected, found):
        """Take what the cleaner took away out of a partition of the history."""
        stamps = log.entries.stamps
        assert found.keys() <= set(expected)
        assert all(stamps[offset] == stamp for offset, stamp in found.items())
        gone = [offset for offset in expected if offset not in found]
        assert self.topic.compact or not gone
        log.entries.compacted[gone] = 0
        self.num_cleaned += len(gone)


def build(project, history, name, topic=None):
    root = project.folder / f"{name}-{history.seed}"
    root.mkdir()
    return build_history(project, history, root, topic)


def ranges(outcome):
    return {
        window: (built.ranges, [(gap["start"], gap["end"]) for gap in built.gaps])
        for window, built in outcome.built.items()
    }
