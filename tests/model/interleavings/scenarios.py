"""The scenarios: which actors act at once, from which state."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.model.interleavings.actors import Actors
from tests.model.interleavings.explore import Bound
from tests.model.interleavings.invariants import Invariants
from tests.model.interleavings.roots import INTERVAL
from tests.model.interleavings.trees import Tree
from trainfeed.errors import ConflictError, NotFoundError, WithdrawnError

__all__ = ["SCENARIOS", "Plot", "Scenario"]

_REFUSALS = (ConflictError, NotFoundError, WithdrawnError)


@dataclass(frozen=True)
class Plot:
    """A scenario without its data set.

    Attributes:
        acts: Names of the calls of ``Actors``, each one actor.
        before: Names of calls that are made before.
        bound: How much is explored every night.
    """

    acts: tuple[str, ...]
    before: tuple[str, ...] = ()
    bound: Bound = field(default_factory=lambda: Bound(2, 1, 2500))


SCENARIOS = {
    "two publishers": Plot(("publish", "publish", "read"), bound=Bound(1, 1, 2500)),
    "publisher, withdrawal": Plot(("publish", "withdraw", "read")),
    "two withdrawals": Plot(("withdraw", "withdraw_too", "read")),
    "withdrawal, restoration": Plot(("restore", "withdraw", "read"), before=("withdraw",)),
    "publisher, restoration": Plot(("publish", "restore", "read"), before=("withdraw",)),
    "two tags": Plot(("tag", "tag_first", "read_tag"), before=("tag",)),
    "tag, withdrawal": Plot(("tag", "withdraw", "read_tag")),
    "tag, retention": Plot(("tag_first", "prune", "read_tag")),
    "lease, retention": Plot(("read_leased", "prune", "publish")),
    "leases, retention, withdrawal": Plot(("read_leased", "prune", "withdraw")),
    "two retentions": Plot(("prune", "prune", "read")),
    "retention, restoration": Plot(("prune", "restore", "read"), before=("withdraw",)),
    "all at once": Plot(
        ("publish", "publish", "withdraw", "tag_first", "prune", "read", "read_leased"),
        bound=Bound(1, 1, 2500),
    ),
}


class Scenario:
    """A plot over a data set, as ``explore`` takes it.

    Args:
        plot: The plot.
        ground: The data set.
    """

    def __init__(self, plot, ground):
        self._calls = _calls(Actors(ground))
        self._plot, self._prune = plot, self._calls["prune"]
        ground.tree.put()
        for name in plot.before:
            self._calls[name]()
        self.folder = ground.folder
        self.tree = Tree(ground.folder)
        self._invariants = Invariants(ground.project.folder.path, INTERVAL)

    def actors(self):
        return [(name, self._calls[name]) for name in self._plot.acts]

    def judge(self, actors):
        self._invariants.state(actors)

    def judge_end(self, actors):
        """Let everybody who crashed try again, and then prune once more."""
        for actor in actors:
            if actor.outcome.crashed:
                _again(actor)
        self._prune()
        self._invariants.state(actors)
        self._invariants.end(actors)


def _again(actor):
    try:
        actor.outcome.result = actor.function()
    except _REFUSALS as error:
        actor.outcome.error = error


def _calls(actors):
    return {
        "publish": actors.publish,
        "withdraw": actors.withdraw,
        "withdraw_too": lambda: actors.withdraw(who="grace"),
        "restore": actors.restore,
        "tag": actors.tag,
        "tag_first": lambda: actors.tag(f"{INTERVAL}/g0001", who="grace"),
        "prune": actors.prune,
        "read": actors.read,
        "read_leased": actors.read_leased,
        "read_tag": actors.read_tag,
    }
