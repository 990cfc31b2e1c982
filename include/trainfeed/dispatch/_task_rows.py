"""The tasks of a master in its state file: each row has a state, a place, and its latest lease.

Methods run inside of a transaction of the queue, which decides when they are called.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

from trainfeed.dispatch._queue_state import DONE, FAILED, PENDING, TODO, QueueOptions
from trainfeed.dispatch._wire import FailedTask, Lease

__all__ = ["TaskRows"]

_SHOWN_FAILURES: Final = 100


class TaskRows:
    """The rows of the table ``tasks``.

    Args:
        db: The state file.
        num_tasks: Number of tasks of a pass.
        options: The rules.
        clock: Seconds of the master's clock.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        num_tasks: int,
        options: QueueOptions,
        clock: Callable[[], float],
    ) -> None:
        self._db = db
        self._num_tasks = num_tasks
        self._options = options
        self._clock = clock

    def fill(self, order: Sequence[int]) -> None:
        """Make all tasks to do, in this order; epochs go on over all passes."""
        self._db.executemany(
            "INSERT INTO tasks VALUES (?, ?, ?, 0, 0, '', '', 0, 0) ON CONFLICT (task) DO UPDATE"
            " SET state = excluded.state, place = excluded.place, failures = 0, reason = ''",
            [(task, TODO, place) for place, task in enumerate(order)],
        )

    def rearm(self) -> None:
        """Give every lease its full time again."""
        now = self._clock()
        self._db.execute(
            "UPDATE tasks SET since = ?, due = ? WHERE state = ?",
            (now, now + self._options.lease_seconds, PENDING),
        )

    def lend(self, trainer: str, want: int) -> tuple[Lease, ...]:
        """Lend the first tasks that are to do, at most ``want``."""
        now = self._clock()
        rows = self._db.execute(
            "SELECT task, epoch + 1 FROM tasks WHERE state = ? ORDER BY place LIMIT ?",
            (TODO, want),
        ).fetchall()
        self._db.executemany(
            "UPDATE tasks SET state = ?, epoch = ?, trainer = ?, since = ?, due = ? WHERE task = ?",
            [
                (PENDING, epoch, trainer, now, now + self._options.lease_seconds, task)
                for task, epoch in rows
            ],
        )
        return tuple(Lease(task=task, epoch=epoch) for task, epoch in rows)

    def finish(self, lease: Lease) -> bool:
        """Note that a task is done; return whether it was lent by this lease."""
        return self._move(lease, DONE)

    def give_back(self, lease: Lease) -> bool:
        """Make a task to do again; return whether it was lent by this lease."""
        return self._move(lease, TODO)

    def is_lent(self, lease: Lease) -> bool:
        """Return whether a task is lent by this lease."""
        found = "SELECT count(*) FROM tasks WHERE task = ? AND epoch = ? AND state = ?"
        return bool(self._one(found, lease.task, lease.epoch, PENDING))

    def fail(self, task: int, reason: str) -> None:
        """Count a failure of a task: it is to do again, or has failed in this pass."""
        failures = self._one("SELECT failures FROM tasks WHERE task = ?", task) + 1
        state = FAILED if failures >= self._options.max_failures else TODO
        self._db.execute(
            # Behind all others: a trainer that can read nothing does not get it again at once.
            "UPDATE tasks SET state = ?, failures = ?, reason = ?, place = place + ?"
            " WHERE task = ?",
            (state, failures, reason, self._num_tasks, task),
        )

    def hold(self, held: Sequence[Lease]) -> tuple[Lease, ...]:
        """Start the time of leases again, within ``hold_seconds``; return those that are lost."""
        due = self._clock() + self._options.lease_seconds
        return tuple(lease for lease in held if not self._hold_until(due, lease))

    def overdue(self) -> list[tuple[int, str]]:
        """Return task and trainer of each lease that has run out."""
        return self._db.execute(
            "SELECT task, trainer FROM tasks WHERE state = ? AND due <= ?", (PENDING, self._clock())
        ).fetchall()

    def next_due(self) -> float:
        """Return the time at which the first lease runs out; at least one task is lent."""
        return float(self._one("SELECT min(due) FROM tasks WHERE state = ?", PENDING))

    def has_open(self) -> bool:
        """Return whether a task is to do or lent."""
        open_tasks = "SELECT EXISTS (SELECT 1 FROM tasks WHERE state IN (?, ?))"
        return bool(self._one(open_tasks, TODO, PENDING))

    def number(self, state: int) -> int:
        """Return the number of tasks in a state."""
        return int(self._one("SELECT count(*) FROM tasks WHERE state = ?", state))

    def epoch(self, task: int) -> int:
        """Return how often a task was lent; 0 for a number that is no task."""
        row = self._db.execute("SELECT epoch FROM tasks WHERE task = ?", (task,)).fetchone()
        return 0 if row is None else int(row[0])

    def failed(self) -> tuple[FailedTask, ...]:
        """Return the tasks that failed in this pass, at most 100 of them."""
        rows = self._db.execute(
            "SELECT task, reason, failures FROM tasks WHERE state = ? ORDER BY task LIMIT ?",
            (FAILED, _SHOWN_FAILURES),
        ).fetchall()
        return tuple(FailedTask(task=t, reason=r, failures=n) for t, r, n in rows)

    def _move(self, lease: Lease, state: int) -> bool:
        changed = self._db.execute(
            "UPDATE tasks SET state = ? WHERE task = ? AND epoch = ? AND state = ?",
            (state, lease.task, lease.epoch, PENDING),
        )
        return changed.rowcount == 1

    def _hold_until(self, due: float, lease: Lease) -> bool:
        changed = self._db.execute(
            "UPDATE tasks SET due = min(?, since + ?) WHERE task = ? AND epoch = ? AND state = ?",
            (due, self._options.hold_seconds, lease.task, lease.epoch, PENDING),
        )
        return changed.rowcount == 1

    def _one(self, statement: str, *values: object) -> Any:
        return self._db.execute(statement, values).fetchone()[0]
