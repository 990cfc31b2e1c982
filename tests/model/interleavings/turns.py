"""One run of some actors over a tree of files: of all actors, only the one whose turn it is acts.

An actor is a function of the code under test in a thread of its own. It stops before every call of
the system that another actor could notice, and before every change. There it can be given the next
turn, or crash: then it makes no further call, its locks are dropped, and its unfinished files stay.
"""

from __future__ import annotations

import errno
import hashlib
import threading
from dataclasses import dataclass, field

from tests.model.interleavings.stops import act_as
from tests.model.interleavings.trees import plain_name, seen_at

__all__ = ["Actor", "Crashed", "Outcome"]


class Crashed(BaseException):
    """Unwinds an actor that crashed."""


@dataclass
class Outcome:
    """How an actor ended.

    Attributes:
        result: What its function returned.
        error: The exception that it raised, or None.
        crashed: Whether it crashed instead.
    """

    result: object = None
    error: Exception | None = None
    crashed: bool = False


def _taken_lock():
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass
class Actor:
    """An actor of one run.

    Attributes:
        name: Its name, for people.
        function: What it does.
        tree: The folder that is watched.
        footprints: The calls of all runs, which tell what is shared.
        number: Its place among the actors.
        at: The call that it stands before; None before its first and after its last.
        waits: Whether that call waits for a lock which another actor holds.
        outcome: How it ended; None while it has not.
        changes: Number of changes that it made.
        journal: The changes of all actors of the run, in their order.
    """

    name: str
    function: object
    tree: object
    footprints: object
    number: int
    at: object = None
    waits: bool = False
    outcome: Outcome | None = None
    changes: int = 0
    journal: list = field(default_factory=list)
    _seen: object = field(default_factory=hashlib.sha256)
    _go: threading.Lock = field(default_factory=_taken_lock)
    _back: threading.Lock = field(default_factory=_taken_lock)
    _dies: bool = False
    _is_stop: bool = False

    def start(self):
        """Run up to the first stop."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._back.acquire()

    def turn(self):
        """Make the call that it stands before, and run up to the next stop."""
        self._go.release()
        self._back.acquire()

    def crash(self):
        """End it before the call that it stands before."""
        self._dies = True
        self.turn()
        self._thread.join()

    @property
    def is_over(self):
        return self.outcome is not None

    @property
    def state(self):
        """Equal for two runs in which it saw the same and stands before the same call."""
        if self.outcome is None:
            return self._seen.hexdigest(), str(self.at), self.waits
        ended = type(self.outcome.error).__name__ if self.outcome.error else "done"
        return ("crashed" if self.outcome.crashed else ended), self._seen.hexdigest()

    # Called by the watched functions, in the thread of the actor.

    def before(self, call):
        if self._dies:
            self._refuse(call)
        self._is_stop = self.waits or self.footprints.is_stop(call)
        if self._is_stop:
            self._stand(call)

    def after(self, call, error):
        self.waits = False
        self.changes += call.changes
        if call.changes and error is None:
            self.journal.append(call)
        self.footprints.add(self.number, call)
        if self._is_stop:
            self._seen.update(
                f"{plain_name(str(call))}: {seen_at(self.tree, call, error)}\n".encode()
            )

    def wait(self):
        self.waits = True

    def _stand(self, call):
        self.at = call
        self._back.release()
        self._go.acquire()
        if self._dies:
            raise Crashed
        self.at = None

    def _refuse(self, call):
        # Finalizers that remove unfinished files run while it unwinds: they shall leave them.
        if call.name == "unlink":
            raise OSError(errno.EIO, "crashed")
        raise Crashed

    def _run(self):
        outcome = Outcome()
        with act_as(self):
            try:
                outcome.result = self.function()
            except Crashed:
                outcome.crashed = True
            except Exception as error:  # noqa: BLE001 (judged by the invariants)
                outcome.error = error.with_traceback(None)
            self.outcome = outcome
        self._back.release()
