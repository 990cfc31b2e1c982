"""One run of the actors: the schedule that it follows, and how it is shown to people."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass

from tests.model.interleavings.stops import LOOKS, watching
from tests.model.interleavings.trees import plain_name, state_of
from tests.model.interleavings.turns import Actor

__all__ = ["CRASH", "TURN", "Run", "Step", "Violation", "shown", "take"]

TURN, CRASH = "turn", "crash"
_SHOWN_LINES = 25
_SHOWN_CHARS = 500


class Violation(AssertionError):  # noqa: N818 - as in the text
    """An invariant does not hold; has the schedule that shows it."""


@dataclass(frozen=True)
class Step:
    """One step of a schedule.

    Attributes:
        what: A turn, or a crash.
        number: Of which actor.
        at: The call before which the actor stood.
        cost: 1 if the actor before could have gone on, else 0.
    """

    what: str
    number: int
    at: str
    cost: int = 0


class Run:
    """One run: the tree of the beginning, and the actors before their first stop."""

    def __init__(self, scenario, footprints):
        scenario.tree.put()
        self._folder, self._digest = scenario.folder, None
        self._watched = watching(scenario.folder)
        self._watched.__enter__()
        self.actors = [
            Actor(name, function, scenario.folder, footprints, number)
            for number, (name, function) in enumerate(scenario.actors())
        ]
        journal = []
        for actor in self.actors:
            actor.journal = journal
            actor.start()

    def tree_state(self):
        """Return the digest of the tree, computed again after changes."""
        changes = sum(actor.changes for actor in self.actors)
        if self._digest is None or self._digest[0] != changes:
            self._digest = changes, state_of(self._folder)
        return self._digest[1]

    def finish(self, actor):
        while self.is_able(actor):
            actor.turn()

    def is_able(self, actor):
        """Whether a turn would bring the actor on: it has not ended, and waits for no lock."""
        if actor.is_over or not actor.waits:
            return not actor.is_over
        with (self._folder / actor.at.paths[0]).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def end(self):
        """Crash what is left, and take the watch away."""
        for actor in self.actors:
            if not actor.is_over:
                actor.crash()
        self._watched.__exit__(None, None, None)


def take(run, taken, step):
    actor = run.actors[step.number]
    if plain_name(str(actor.at)) != plain_name(step.at):
        raise Violation(
            f"two runs of one schedule differ: {actor.name} stands before {actor.at}, in the"
            f" other run before {step.at}\n{shown(run, taken)}"
        )
    taken.append(step)
    if step.what == CRASH:
        actor.crash()
    else:
        actor.turn()


def shown(run, taken):
    """Return a schedule for people: its last turns, without looks that follow a look."""
    names = [actor.name for actor in run.actors]
    lines = []
    for step in taken:
        line = f"{names[step.number]:>12} {step.what} {plain_name(step.at)}"
        is_look = step.at.partition(" ")[0] in LOOKS
        if is_look and lines and lines[-1].startswith(f"{names[step.number]:>12} {step.what}"):
            lines.pop()
        lines.append(line)
    ends = [f"{actor.name:>12} ended: {str(actor.outcome)[:_SHOWN_CHARS]}" for actor in run.actors]
    return "\n".join((*lines[-_SHOWN_LINES:], *ends))
