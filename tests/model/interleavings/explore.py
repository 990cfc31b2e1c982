"""All orders in which some actors can act, with crashes, up to a number of preemptions.

The search is one over schedules: each is run from the beginning, by the real code on a real tree.
A schedule begins with turns that are given; then the actor whose turn it was goes on, as long as it
can. At every state that was not seen before, the other turns that are possible there begin further
schedules: another actor's turn, which is a preemption unless the first one ended or waits, and a
crash before a change. States are equal if the tree is, and each actor saw the same and stands
before the same call; a state that was seen with as many preemptions and crashes left is left.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from tests.model.interleavings.footprints import Footprints
from tests.model.interleavings.runs import CRASH, TURN, Run, Step, Violation, shown, take

__all__ = ["Bound", "Count", "Violation", "explore"]


@dataclass(frozen=True)
class Bound:
    """How much of all orders is explored.

    Attributes:
        preemptions: How often an actor that could go on is made to stand.
        crashes: How many actors crash.
        schedules: The most schedules that are run; None for all.
    """

    preemptions: int = 2
    crashes: int = 1
    schedules: int | None = None


@dataclass
class Count:
    """What an exploration did.

    Attributes:
        schedules: Number of runs.
        states: Number of different states.
        turns: Number of calls made in them.
        crashes: Number of runs with a crash.
        passes: How often it began again because more was shared than known.
        whole: Whether no schedule within the bound is left.
    """

    schedules: int = 0
    states: int = 0
    turns: int = 0
    crashes: int = 0
    passes: int = 0
    whole: bool = False
    ends: set = field(default_factory=set)


def explore(scenario, bound):
    """Explore a scenario.

    Args:
        scenario: Has ``tree`` (a ``Tree``), ``folder`` (what is watched), ``actors()`` (names and
            functions for one run), ``judge(actors)`` for every state, and ``judge_end(actors)``.
        bound: How much of it.

    Returns:
        The counts, of the last pass.

    Raises:
        Violation: An invariant does not hold.
    """
    footprints = Footprints()
    logging.disable(logging.CRITICAL)
    try:
        _learn_alone(scenario, footprints)
        passes = 0
        while True:
            passes += 1
            count = _Search(scenario, bound, footprints).run()
            count.passes = passes
            if not footprints.learn():
                return count
    finally:
        logging.disable(logging.NOTSET)


def _learn_alone(scenario, footprints):
    """Run the actors one after another, in every turn of their circle."""
    for first in range(len(scenario.actors())):
        run = Run(scenario, footprints)
        for actor in (*run.actors[first:], *run.actors[:first]):
            run.finish(actor)
        run.end()
    footprints.learn()


class _Search:
    def __init__(self, scenario, bound, footprints):
        self._scenario, self._bound, self._footprints = scenario, bound, footprints
        self._left = [()]
        self._best: dict[tuple, list[tuple[int, int]]] = {}
        self._count = Count()

    def run(self):
        while self._left:
            if self._count.schedules == self._bound.schedules:
                return self._count
            self._count.schedules += 1
            self._play(self._left.pop())
        self._count.whole = True
        return self._count

    def _play(self, schedule):
        run = Run(self._scenario, self._footprints)
        taken = []
        try:
            for step in schedule:
                take(run, taken, step)
            if self._go_on(run, taken):
                self._judge_end(run, taken)
        finally:
            run.end()

    def _go_on(self, run, taken):
        """Take turns up to the end; return False at a state that was seen before."""
        while able := [actor.number for actor in run.actors if run.is_able(actor)]:
            current = taken[-1].number if taken else None
            if not self._is_new(run, taken, current if current in able else None):
                return False
            self._told(self._scenario.judge, run, taken)
            ahead = current if current in able else able[0]
            self._branch(run, taken, able, ahead, cost=int(current in able))
            take(run, taken, Step(TURN, ahead, str(run.actors[ahead].at)))
            self._count.turns += 1
        return True

    def _is_new(self, run, taken, current):
        key = (run.tree_state(), *(actor.state for actor in run.actors), current)
        left = self._left_of(taken)
        seen = self._best.setdefault(key, [])
        if any(each[0] >= left[0] and each[1] >= left[1] for each in seen):
            return False
        self._count.states += not seen
        seen.append(left)
        return True

    def _left_of(self, taken):
        """Return how many preemptions and crashes are left."""
        return (
            self._bound.preemptions - sum(step.cost for step in taken),
            self._bound.crashes - sum(step.what == CRASH for step in taken),
        )

    def _branch(self, run, taken, able, ahead, *, cost):
        preemptions, crashes = self._left_of(taken)
        at = run.actors[ahead].at
        if not cost or (preemptions and self._footprints.is_shared(at)):
            for number in able:
                if number != ahead:
                    step = Step(TURN, number, str(run.actors[number].at), cost)
                    self._left.append((*taken, step))
        if crashes and at.changes:
            self._left.append((*taken, Step(CRASH, ahead, str(at))))

    def _judge_end(self, run, taken):
        if waiting := [actor.name for actor in run.actors if not actor.is_over]:
            raise Violation(f"{waiting} wait for each other\n{shown(run, taken)}")
        self._count.ends.add((run.tree_state(), *(a.state[0] for a in run.actors)))
        self._count.crashes += any(step.what == CRASH for step in taken)
        self._told(self._scenario.judge, run, taken)
        self._told(self._scenario.judge_end, run, taken)

    def _told(self, judge, run, taken):
        try:
            judge(run.actors)
        except AssertionError as error:
            raise Violation(f"{error}\n{shown(run, taken)}") from error
