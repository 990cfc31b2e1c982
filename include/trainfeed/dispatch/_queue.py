"""The queue of a master: tasks that are to do, lent, done or failed, in passes.

A report counts only for a task that is lent, with the epoch of that lease; all others came too late
or twice. A pass ends when no task is to do and none is lent. Times are those of the master's
monotonic clock; a restarted master gives every lease its full time again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from trainfeed.dispatch._pass_rows import PassRows
from trainfeed.dispatch._queue_state import (
    DONE,
    FAILED,
    PENDING,
    TODO,
    QueueOptions,
    open_state,
    part,
    transaction,
)
from trainfeed.dispatch._task_list import TaskList
from trainfeed.dispatch._task_rows import TaskRows
from trainfeed.dispatch._wire import Answer, Ask, Failure, Lease, PassReport, Served, Status
from trainfeed.errors import ConfigError, ConflictError

__all__ = ["TaskQueue"]

_SHOWN_PASSES: Final = 20
_LONGEST_WAIT: Final = 1.0
_SHORTEST_WAIT: Final = 0.02


class TaskQueue:
    """The queue over one state file; all methods but ``transaction`` run in a transaction.

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
        self._task_rows = TaskRows(self._db, tasks.num_tasks, options, clock)
        self._pass_rows = PassRows(self._db)
        with self.transaction():
            self._task_rows.fill(tasks.order(0)) if is_new else self._rearm()

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context whose changes are committed at its end, all or none."""
        return transaction(self._db)

    def part(self) -> AbstractContextManager[None]:
        """Return a context within a transaction; an error undoes the changes of it alone."""
        return part(self._db)

    def close(self) -> None:
        """Close the state file."""
        self._db.close()

    @property
    def pass_number(self) -> int:
        """The current pass; the number of passes once all have ended."""
        return self._pass_rows.current()

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
        lost = self._task_rows.hold(ask.held)
        self._end_pass()
        given = self._given(ask, ignored, lost)
        self._remember(ask, given)
        return given

    def expire(self) -> None:
        """Take back the tasks whose leases have run out."""
        due = self._task_rows.overdue()
        for task, trainer in due:
            self._pass_rows.count("timeouts", 1)
            self._task_rows.fail(task, f"the lease of trainer {trainer[:8]} ran out")
        if due:
            self._end_pass()
        forgotten = self._clock() - 2 * self.options.hold_seconds
        self._db.execute("DELETE FROM trainers WHERE seen < ?", (forgotten,))

    def served(self) -> Served:
        """Return the description for trainers."""
        self.expire()
        return self.tasks.served(self.pass_number, self.options.passes)

    def status(self) -> Status:
        """Return the state for people."""
        self.expire()
        reports = self._pass_rows.last_reports(_SHOWN_PASSES)
        # After the last pass, its account is the current one.
        number = self.pass_number
        return Status(
            served=self.tasks.served(number, self.options.passes),
            todo=0 if self.is_over else self._task_rows.number(TODO),
            pending=0 if self.is_over else self._task_rows.number(PENDING),
            current=reports[-1] if self.is_over else self._account(number),
            ended=reports,
        )

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
            if lease.epoch > self._task_rows.epoch(lease.task):
                raise ConfigError(
                    f"expected a task that was lent, got task {lease.task} with epoch"
                    f" {lease.epoch}; nothing was changed"
                )

    def _report(self, ask: Ask) -> int:
        """Take the reports; return how many of them were too late."""
        finished = [self._task_rows.finish(lease) for lease in ask.finished]
        failed = [self._take_failure(failure) for failure in ask.failed]
        returned = [self._task_rows.give_back(lease) for lease in ask.returned]
        ignored = [*finished, *failed, *returned].count(False)
        self._pass_rows.count("failures", failed.count(True))
        self._pass_rows.count("returns", returned.count(True))
        self._pass_rows.count("ignored", ignored)
        return ignored

    def _take_failure(self, failure: Failure) -> bool:
        if not self._task_rows.is_lent(failure):
            return False
        self._task_rows.fail(failure.task, failure.reason)
        return True

    def _given(self, ask: Ask, ignored: int, lost: tuple[Lease, ...]) -> Answer:
        common: dict[str, Any] = {
            "lost": lost,
            "ignored": ignored,
            "lease_seconds": self.options.lease_seconds,
        }
        if ask.pass_number < self.pass_number or self.is_over:
            # No pass follows the last one; a request for it is answered with that one's account.
            ended = min(ask.pass_number, self.pass_number - 1)
            return Answer(state="ended", report=self._pass_rows.report(ended), **common)
        leases = self._task_rows.lend(ask.trainer, ask.want)
        self._pass_rows.count("leases", len(leases))
        if leases or not ask.want:
            return Answer(state="leased", leases=leases, **common)
        return Answer(state="wait", wait_seconds=self._wait(), **common)

    def _wait(self) -> float:
        return max(_SHORTEST_WAIT, min(_LONGEST_WAIT, self._task_rows.next_due() - self._clock()))

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
        if self.is_over or self._task_rows.has_open():
            return
        number = self.pass_number
        self._pass_rows.end(self._account(number))
        if not self.is_over:
            self._pass_rows.begin(number + 1)
            self._task_rows.fill(self.tasks.order(number + 1))

    def _account(self, number: int) -> PassReport:
        return PassReport(
            pass_number=number,
            tasks=self.tasks.num_tasks,
            done=self._task_rows.number(DONE),
            failed=self._task_rows.number(FAILED),
            failed_tasks=self._task_rows.failed(),
            **self._pass_rows.counters(number),
        )

    def _rearm(self) -> None:
        self._task_rows.rearm()
        self._db.execute("UPDATE trainers SET seen = ?", (self._clock(),))
