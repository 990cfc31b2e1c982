"""The queue of a master: tasks that are to do, lent, done or failed, in passes.

A report counts only for a task that is lent, with the epoch of that lease; all others came too late
or twice. A pass ends when no task is to do and none is lent. Times are those of the master's
monotonic clock; a restarted master gives every lease its full time again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from trainfeed.dispatch._state import (
    DONE,
    FAILED,
    PENDING,
    TODO,
    QueueOptions,
    open_state,
    transaction,
)
from trainfeed.dispatch._task_list import TaskList
from trainfeed.dispatch._wire import Answer, Ask, FailedTask, Lease, PassReport, Served, Status
from trainfeed.errors import ConfigError, ConflictError

__all__ = ["TaskQueue"]

_SHOWN_FAILURES: Final = 100
_SHOWN_PASSES: Final = 20
_LONGEST_WAIT: Final = 1.0
_SHORTEST_WAIT: Final = 0.02
_COUNTERS: Final = ("leases", "timeouts", "failures", "returns", "ignored")


class TaskQueue:
    """The queue over one state file; every method but ``transaction`` runs inside of a transaction.

    Args:
        path: The state file, opened or made.
        tasks: The task list.
        options: The rules.
        clock: Seconds of a clock that never goes back while the process runs.

    Raises:
        ConflictError: As ``open_state`` raises it.
    """

    def __init__(
        self, path: Path, tasks: TaskList, options: QueueOptions, clock: Callable[[], float]
    ) -> None:
        self.tasks = tasks
        self.options = options
        self._clock = clock
        self._db, is_new = open_state(path, tasks.digest)
        with self.transaction():
            self._fill(0) if is_new else self._rearm()

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context whose changes are committed at its end, all or none."""
        return transaction(self._db)

    def close(self) -> None:
        """Close the state file."""
        self._db.close()

    @property
    def pass_number(self) -> int:
        """The current pass; the number of passes once all have ended."""
        return int(self._one("SELECT pass_number FROM master"))

    @property
    def is_over(self) -> bool:
        """Whether all passes have ended."""
        return self.options.passes is not None and self.pass_number >= self.options.passes

    def answer(self, ask: Ask) -> Answer:
        """Take the reports of a trainer, and lend it tasks.

        Raises:
            ConflictError: The trainer reads other data or a later pass, or repeats an old request.
            ConfigError: A lease was never given.
        """
        if (known := self._known(ask)) is not None:
            return known
        self._require_sound(ask)
        self.expire()
        ignored = self._report(ask)
        lost = self._hold(ask.held)
        self._end_pass()
        given = self._given(ask, ignored, lost)
        self._remember(ask, given)
        return given

    def expire(self) -> None:
        """Take back the tasks whose leases have run out."""
        now = self._clock()
        due = self._db.execute(
            "SELECT task, trainer FROM tasks WHERE state = ? AND due <= ?", (PENDING, now)
        ).fetchall()
        for task, trainer in due:
            self._count("timeouts", 1)
            self._fail(task, f"the lease of trainer {trainer[:8]} ran out")
        if due:
            self._end_pass()
        self._db.execute("DELETE FROM trainers WHERE seen < ?", (now - self._forgotten_seconds,))

    def served(self) -> Served:
        """Return the description for trainers."""
        self.expire()
        return self.tasks.served(self.pass_number, self.options.passes)

    def status(self) -> Status:
        """Return the state for people."""
        self.expire()
        ended = self._db.execute(
            "SELECT pass_number FROM passes WHERE report != '' ORDER BY pass_number DESC LIMIT ?",
            (_SHOWN_PASSES,),
        ).fetchall()
        reports = [self._ended(number) for (number,) in reversed(ended)]
        # After the last pass, its account is the current one.
        number = self.pass_number
        return Status(
            served=self.tasks.served(number, self.options.passes),
            todo=0 if self.is_over else self._number(TODO),
            pending=0 if self.is_over else self._number(PENDING),
            current=reports[-1] if self.is_over else self._account(number),
            ended=tuple(reports),
        )

    @property
    def _forgotten_seconds(self) -> float:
        return 2 * self.options.hold_seconds

    def _known(self, ask: Ask) -> Answer | None:
        """Return the answer that a request got before; its first answer may have been lost."""
        row = self._db.execute(
            "SELECT number, answer FROM trainers WHERE trainer = ?", (ask.trainer,)
        ).fetchone()
        if row is None or row[0] < ask.number:
            return None
        if row[0] > ask.number:
            raise ConflictError(
                f"expected a request after number {row[0]} of this trainer, got {ask.number};"
                " two programs use one name, or an old request came late; nothing was changed"
            )
        return Answer.model_validate_json(row[1])

    def _require_sound(self, ask: Ask) -> None:
        if ask.data != self.tasks.digest:
            raise ConflictError(
                f"expected a trainer of the data {self.tasks.digest[:16]}…, got {ask.data[:16]}…;"
                " the master serves other versions now; start the pass again"
            )
        if ask.pass_number > self.pass_number:
            raise ConflictError(
                f"expected a pass up to {self.pass_number}, got {ask.pass_number}; start the pass"
                " again; nothing was changed"
            )
        for lease in (*ask.finished, *ask.failed, *ask.returned, *ask.held):
            if lease.epoch > (self._epoch(lease.task) or 0):
                raise ConfigError(
                    f"expected a task that was lent, got task {lease.task} with epoch"
                    f" {lease.epoch}; nothing was changed"
                )

    def _report(self, ask: Ask) -> int:
        """Take the reports; return how many of them were too late."""
        ignored = 0
        for lease in ask.finished:
            ignored += not self._move(lease, DONE)
        for failure in ask.failed:
            if self._is_lent(failure):
                self._count("failures", 1)
                self._fail(failure.task, failure.reason)
            else:
                ignored += 1
        for lease in ask.returned:
            if self._move(lease, TODO):
                self._count("returns", 1)
            else:
                ignored += 1
        self._count("ignored", ignored)
        return ignored

    def _move(self, lease: Lease, state: int) -> bool:
        """Move a task that is lent by this lease; return whether it was."""
        changed = self._db.execute(
            "UPDATE tasks SET state = ? WHERE task = ? AND epoch = ? AND state = ?",
            (state, lease.task, lease.epoch, PENDING),
        )
        return changed.rowcount == 1

    def _is_lent(self, lease: Lease) -> bool:
        found = "SELECT count(*) FROM tasks WHERE task = ? AND epoch = ? AND state = ?"
        return bool(self._one(found, lease.task, lease.epoch, PENDING))

    def _fail(self, task: int, reason: str) -> None:
        failures = self._one("SELECT failures FROM tasks WHERE task = ?", task) + 1
        state = FAILED if failures >= self.options.max_failures else TODO
        self._db.execute(
            # Behind all others: a trainer that can read nothing does not get it again at once.
            "UPDATE tasks SET state = ?, failures = ?, reason = ?, place = place + ?"
            " WHERE task = ?",
            (state, failures, reason, self.tasks.num_tasks, task),
        )

    def _hold(self, held: Sequence[Lease]) -> tuple[Lease, ...]:
        """Start the time of leases again, within ``hold_seconds``; return those that are lost."""
        now, options = self._clock(), self.options
        lost = []
        for lease in held:
            changed = self._db.execute(
                "UPDATE tasks SET due = min(?, since + ?)"
                " WHERE task = ? AND epoch = ? AND state = ?",
                (now + options.lease_seconds, options.hold_seconds, *_key(lease), PENDING),
            )
            if not changed.rowcount:
                lost.append(lease)
        return tuple(lost)

    def _given(self, ask: Ask, ignored: int, lost: tuple[Lease, ...]) -> Answer:
        common: dict[str, Any] = {
            "lost": lost,
            "ignored": ignored,
            "lease_seconds": self.options.lease_seconds,
        }
        if ask.pass_number < self.pass_number:
            return Answer(state="ended", report=self._ended(ask.pass_number), **common)
        leases = self._lend(ask)
        if leases or not ask.want:
            return Answer(state="leased", leases=leases, **common)
        return Answer(state="wait", wait_seconds=self._wait(), **common)

    def _lend(self, ask: Ask) -> tuple[Lease, ...]:
        now = self._clock()
        rows = self._db.execute(
            "SELECT task, epoch + 1 FROM tasks WHERE state = ? ORDER BY place LIMIT ?",
            (TODO, ask.want),
        ).fetchall()
        self._db.executemany(
            "UPDATE tasks SET state = ?, epoch = ?, trainer = ?, since = ?, due = ? WHERE task = ?",
            [
                (PENDING, epoch, ask.trainer, now, now + self.options.lease_seconds, task)
                for task, epoch in rows
            ],
        )
        self._count("leases", len(rows))
        return tuple(Lease(task=task, epoch=epoch) for task, epoch in rows)

    def _wait(self) -> float:
        due: float = self._one("SELECT min(due) FROM tasks WHERE state = ?", PENDING)
        return max(_SHORTEST_WAIT, min(_LONGEST_WAIT, due - self._clock()))

    def _remember(self, ask: Ask, given: Answer) -> None:
        # A wait changes nothing, so the same request may be answered otherwise the second time.
        if given.state == "wait" and not (ask.finished or ask.failed or ask.returned):
            return
        self._db.execute(
            "INSERT INTO trainers VALUES (?, ?, ?, ?) ON CONFLICT (trainer) DO UPDATE SET"
            " number = excluded.number, answer = excluded.answer, seen = excluded.seen",
            (ask.trainer, ask.number, given.model_dump_json(), self._clock()),
        )

    def _end_pass(self) -> None:
        """Write the account of the pass and begin the next one, if no task is open."""
        open_tasks = "SELECT EXISTS (SELECT 1 FROM tasks WHERE state IN (?, ?))"
        if self.is_over or self._one(open_tasks, TODO, PENDING):
            return
        number = self.pass_number
        report = self._account(number).model_dump_json()
        self._db.execute("UPDATE passes SET report = ? WHERE pass_number = ?", (report, number))
        self._db.execute("UPDATE master SET pass_number = ?", (number + 1,))
        if not self.is_over:
            self._db.execute("INSERT INTO passes (pass_number) VALUES (?)", (number + 1,))
            self._fill(number + 1)

    def _fill(self, pass_number: int) -> None:
        """Make all tasks to do, in the order of the pass; epochs go on over all passes."""
        order = enumerate(self.tasks.order(pass_number))
        self._db.executemany(
            "INSERT INTO tasks VALUES (?, ?, ?, 0, 0, '', '', 0, 0) ON CONFLICT (task) DO UPDATE"
            " SET state = excluded.state, place = excluded.place, failures = 0, reason = ''",
            [(task, TODO, place) for place, task in order],
        )

    def _rearm(self) -> None:
        now = self._clock()
        self._db.execute(
            "UPDATE tasks SET since = ?, due = ? WHERE state = ?",
            (now, now + self.options.lease_seconds, PENDING),
        )
        self._db.execute("UPDATE trainers SET seen = ?", (now,))

    def _account(self, number: int) -> PassReport:
        names = ", ".join(_COUNTERS)
        row = self._db.execute(
            f"SELECT {names} FROM passes WHERE pass_number = ?",  # noqa: S608 (fixed names)
            (number,),
        ).fetchone()
        failed = self._db.execute(
            "SELECT task, reason, failures FROM tasks WHERE state = ? ORDER BY task LIMIT ?",
            (FAILED, _SHOWN_FAILURES),
        ).fetchall()
        return PassReport(
            pass_number=number,
            tasks=self.tasks.num_tasks,
            done=self._number(DONE),
            failed=self._number(FAILED),
            failed_tasks=tuple(FailedTask(task=t, reason=r, failures=n) for t, r, n in failed),
            **dict(zip(_COUNTERS, row, strict=True)),
        )

    def _ended(self, number: int) -> PassReport:
        text = self._one("SELECT report FROM passes WHERE pass_number = ?", number)
        # Reports that came after the last pass have no later pass to be counted in.
        ignored = self._one("SELECT ignored FROM passes WHERE pass_number = ?", number)
        return PassReport.model_validate_json(text).model_copy(update={"ignored": ignored})

    def _count(self, counter: str, amount: int) -> None:
        if amount:
            self._db.execute(
                f"UPDATE passes SET {counter} = {counter} + ?"  # noqa: S608 (fixed names)
                " WHERE pass_number = (SELECT max(pass_number) FROM passes)",
                (amount,),
            )

    def _number(self, state: int) -> int:
        return int(self._one("SELECT count(*) FROM tasks WHERE state = ?", state))

    def _epoch(self, task: int) -> int | None:
        row = self._db.execute("SELECT epoch FROM tasks WHERE task = ?", (task,)).fetchone()
        return None if row is None else int(row[0])

    def _one(self, statement: str, *values: object) -> Any:
        return self._db.execute(statement, values).fetchone()[0]


def _key(lease: Lease) -> tuple[int, int]:
    return lease.task, lease.epoch
