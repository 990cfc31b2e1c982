"""Counting while several threads iterate."""

import threading

import pytest

from trainfeed.loader._stats import LoaderStats


class InterruptedOne:
    """The number 1, in whose addition another thread gets its turn."""

    def __init__(self, act):
        self.thread = threading.Thread(target=act)

    def __radd__(self, other):
        self.thread.start()
        self.thread.join(0.05)  # it comes in between, or waits for its turn
        return other + 1


@pytest.mark.parametrize(
    ("name", "figure", "rest"),
    [
        ("count_batches", "batches", (0, 0)),
        ("count_wait", "wait_s", (0,)),
        ("count_assembly", "assemble_s", ()),
        ("count_load", "load_s", (0,)),
    ],
)
def test_no_count_is_lost(name, figure, rest):
    stats = LoaderStats()
    count = getattr(stats, name)
    one = InterruptedOne(lambda: count(2, *rest))
    count(one, *rest)
    one.thread.join()
    assert getattr(stats.report(), figure) == 3
