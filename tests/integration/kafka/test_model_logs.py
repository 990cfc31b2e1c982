"""The random logs of tests/model on a real broker: its transactions, its cleaner, its deletions.

In stretches of ten logs: one here, as many as TEST_MODEL_STRETCHES says every night.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count, repeat
from multiprocessing import get_context

import numpy as np
import pytest

from tests.model.builds import Project, build_history
from tests.model.histories import draw_history
from tests.model.oracle import judge
from tests.model.played_topic import PlayedTopic, playable
from tests.model.promises import broken

MAX_ENTRIES = 700
AT_ONCE = 4
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


@pytest.fixture(scope="module")
def pool():
    # Playing is mostly waiting for answers. The client does not survive a fork.
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.timeout(900)
@pytest.mark.parametrize("stretch", range(STRETCHES))
def test_every_committed_record_is_in_one_version_or_named(servers, tmp_path, pool, stretch):
    histories = list(draw(stretch))
    # First what the cleaner has to be waited for.
    histories.sort(key=is_compacted, reverse=True)
    folders = [tmp_path / str(number) for number in range(len(histories))]
    found = list(pool.map(judge_log, repeat(servers), folders, histories))
    assert [verdict for verdict in found if verdict.broken] == []
    assert [verdict for verdict in found if not verdict.is_as_simulated] == []
    assert sum(verdict.num_cleaned for verdict in found) > 0


@pytest.mark.parametrize("seed", [400_258, 1_700_238], ids=["deleted topic", "deleted records"])
def test_what_is_deleted_may_have_been_cleaned(servers, tmp_path, monkeypatch, seed):
    """The cleaner was faster than the first build, as it is on a busy machine."""
    opened, cleaned = PlayedTopic.open, []

    def open_cleaned(topic, now):
        topic.play(now)
        if not cleaned:
            topic.wait_for_cleaner()
            cleaned.append(now)
        return opened(topic, now)

    monkeypatch.setattr(PlayedTopic, "open", open_cleaned)
    verdict = judge_log(servers, tmp_path / "log", draw_history(seed))
    assert (verdict.broken, verdict.num_cleaned > 0) == ([], True)


def test_a_partition_that_is_added_to_the_next_topic_is_played_from_its_own_log(servers, tmp_path):
    verdict = judge_log(servers, tmp_path / "log", draw_history(100_420))
    assert (verdict.broken, verdict.num_cleaned) == ([], 0)


@dataclass(frozen=True)
class Verdict:
    """The result of one log: broken promises, where, and how many records the cleaner took."""

    seed: int
    broken: list[str]
    lines: list[str]
    is_as_simulated: bool
    num_cleaned: int


def judge_log(servers, folder, history):
    """Play and build one history, and hold what came out against the promises."""
    folder.mkdir()
    project, log = Project(folder), Log(servers, history)
    if is_loaded_and_compacted(history):
        log.topic.play(history.attempts[0].now)
        log.topic.wait_for_cleaner()
    outcome = log.build(project)
    counts, lines = judge(log.history, outcome)
    # Rates are held where there are enough logs for them; see tests/model.
    del counts["empty_wrong"]
    return Verdict(
        history.seed,
        broken(counts, needless=0, most_needless=0),
        lines,
        not is_plain(history)
        or ranges(outcome) == ranges(build(project, log.history, "simulated")),
        log.num_cleaned,
    )


class Log:
    """A history, the topic that plays it, and what its cleaner took away."""

    def __init__(self, servers, history):
        self.history = playable(history)
        self.topic = PlayedTopic(servers, self.history, compact=is_compacted(history))
        self.num_cleaned = 0

    def build(self, project):
        """Build everything, and take what the cleaner took away out of the history."""
        outcome = build(project, self.history, "played", self.topic)
        self.topic.drop()
        for incarnation in self.history.incarnations:
            for number, log in incarnation.partitions.items():
                gone = self.topic.cleaned(incarnation.uuid, number)
                log.entries.compacted[gone] = 0
                self.num_cleaned += len(gone)
        return outcome


def build(project, history, name, topic=None):
    root = project.folder / f"{name}-{history.seed}"
    root.mkdir()
    return build_history(project, history, root, topic)


def ranges(outcome):
    return {
        window: (built.ranges, [(gap["start"], gap["end"]) for gap in built.gaps])
        for window, built in outcome.built.items()
    }
