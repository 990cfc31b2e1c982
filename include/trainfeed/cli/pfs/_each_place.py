"""One action for each place that a command names; a place that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trainfeed.cli.pfs._pfs_options import tell_failure
from trainfeed.errors import TrainFeedError
from trainfeed.pfs.copy_plan import Place, expanded
from trainfeed.pfs.places import Places

__all__ = ["Failures", "for_each_place"]


@dataclass
class Failures:
    """What failed in a command so far.

    Attributes:
        count: Number of failures, each of which has a line of its own.
    """

    count: int = 0

    def add(self, error: TrainFeedError) -> None:
        """Print a failure, and count it."""
        tell_failure(error)
        self.count += 1


def for_each_place(paths: Sequence[str], act: Callable[[Place, Failures], None]) -> int:
    """Call ``act`` for each place that paths and patterns name; return the number of failures.

    Raises:
        ConfigError: A path is not one of shared storage; nothing was done.
    """
    failures = Failures()
    with Places() as places:
        for place in [places.shared(path) for path in paths]:
            for each in _expanded(place, failures):
                try:
                    act(each, failures)
                except TrainFeedError as error:
                    failures.add(error)
    return failures.count


def _expanded(place: Place, failures: Failures) -> Iterator[Place]:
    try:
        yield from expanded(place)
    except TrainFeedError as error:
        failures.add(error)
