"""Counting while several threads iterate."""

import threading

import pytest

from tests.unit.loader.datasets import Sleepy
from trainfeed.errors import ConfigError
from trainfeed.loader import DataLoader, LoaderReport
from trainfeed.loader.state import LoaderStats


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


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "num_threads": 1}])
def test_waiting_and_putting_together_are_told_apart(options):
    with DataLoader(Sleepy(20), 5, **options) as loader:
        list(loader)
        report = loader.report()
    assert report.wait_s > 0
    assert report.wait_s + report.assemble_s <= report.elapsed_s


def test_labels_are_of_any_value_and_have_names_that_prometheus_takes():
    assert 'trainfeed_loader_batches_total{job="a\\"b",rank="3"} 0' in LoaderReport().prometheus(
        job='a"b', rank=3
    )
    for name in ("a-b", "0a", ""):
        with pytest.raises(ConfigError, match="expected labels of letters"):
            LoaderReport().prometheus(**{name: "x"})
