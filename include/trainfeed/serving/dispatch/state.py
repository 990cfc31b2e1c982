"""The state of a master: one SQLite file with its passes and its tasks, open in one process."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.errors import ConfigError, ConflictError, StorageError
from trainfeed.serving.dispatch.messages import FailedTask, Lease, PassReport

# --- The state of a master: one SQLite file, which one process has open at a time

TODO: Final = 0
PENDING: Final = 1
DONE: Final = 2
FAILED: Final = 3

_FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE master (format INTEGER NOT NULL, data TEXT NOT NULL, pass_number INTEGER NOT NULL);
CREATE TABLE tasks (
    task INTEGER PRIMARY KEY, state INTEGER NOT NULL, place INTEGER NOT NULL,
    epoch INTEGER NOT NULL, failures INTEGER NOT NULL, reason TEXT NOT NULL,
    trainer TEXT NOT NULL, since REAL NOT NULL, due REAL NOT NULL);
CREATE INDEX by_place ON tasks (state, place);
CREATE INDEX by_due ON tasks (state, due);
CREATE TABLE passes (
    pass_number INTEGER PRIMARY KEY, leases INTEGER NOT NULL DEFAULT 0,
    timeouts INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
    returns INTEGER NOT NULL DEFAULT 0, ignored INTEGER NOT NULL DEFAULT 0,
    report TEXT NOT NULL DEFAULT '');
CREATE TABLE trainers (
    trainer TEXT PRIMARY KEY, number INTEGER NOT NULL, answer TEXT NOT NULL, seen REAL NOT NULL);
CREATE INDEX by_seen ON trainers (seen);
"""


@dataclass(frozen=True)
class QueueOptions:
    """The rules of a queue.

    Attributes:
        lease_seconds: Time after which a lease without a sign of its trainer runs out.
        hold_seconds: Time after which a lease runs out in any case.
        max_failures: Failures and time-outs of a task in one pass after which it has failed.
        passes: Number of passes; None for no end.
    """

    lease_seconds: float = 60.0
    hold_seconds: float = 3600.0
    max_failures: int = 3
    passes: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.lease_seconds <= self.hold_seconds:
            raise ConfigError(
                "expected 0 < lease_seconds <= hold_seconds, got"
                f" {self.lease_seconds:g} and {self.hold_seconds:g}"
            )
        if self.max_failures < 1 or (self.passes is not None and self.passes < 1):
            raise ConfigError(
                "expected max_failures and passes to be 1 or more, got"
                f" {self.max_failures} and {self.passes}"
            )


def open_state(path: Path, data: str) -> tuple[sqlite3.Connection, bool]:
    """Open the state of a master, or make it.

    Args:
        path: The file; on a disk of this machine.
        data: Digest of the task list that is served.

    Returns:
        The connection, and whether the file is new.

    Raises:
        ConflictError: Another master has the file open, or it is the state of other data.
        ConfigError: The file is no state of a master.
        StorageError: The file system refused.
    """
    try:
        # The file has names of trainers and reasons of failures: closed to other accounts.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"cannot open the state of the master in {path}: {error}") from error
    try:
        return connection, _prepared(connection, path, data)
    except BaseException:
        connection.close()
        raise


def _prepared(connection: sqlite3.Connection, path: Path, data: str) -> bool:
    try:
        # Exclusive before WAL: no memory is shared with other processes then, and they are refused.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        with transaction(connection):
            is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if is_new:
                _make(connection, data)
            found = connection.execute("SELECT format, data FROM master").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise ConflictError(
                f"expected {path} for this master alone, another process has it open; end that"
                " master, or choose another file"
            ) from error
        raise ConfigError(f"expected the state of a master in {path}, got: {error}") from error
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"expected the state of a master in {path}, got: {error}") from error
    if found != (_FORMAT, data):
        raise ConflictError(
            f"expected the state of a master of the data {data[:16]}… in {path}, got that of other"
            " data, order or size of tasks; the file was left as it is; choose another file"
        )
    return is_new


def _make(connection: sqlite3.Connection, data: str) -> None:
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO master VALUES (?, ?, 0)", (_FORMAT, data))
    connection.execute("INSERT INTO passes (pass_number) VALUES (0)")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does, durably; an error of the block, or of the commit, undoes it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def part(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep what the block does for the commit of the transaction; an error undoes the block alone.

    SQLite ends the whole transaction after some errors, a full disk for example; all later parts
    are refused then, and so is the commit.
    """
    if not connection.in_transaction:
        raise sqlite3.OperationalError("the transaction has ended after an error")
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        raise
    connection.execute("RELEASE part")


# --- The passes of a master in its state file: the current number, counters

_COUNTERS: Final = ("leases", "timeouts", "failures", "returns", "ignored")


class PassRows:
    """The rows of the table ``passes``, and the number of the current pass.

    Args:
        db: The state file.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def current(self) -> int:
        """Return the current pass; the number of passes once all have ended."""
        return int(self._one("SELECT pass_number FROM master"))

    def end(self, report: PassReport) -> None:
        """Keep the account of the current pass, and count on to the next number."""
        number = report.pass_number
        self._db.execute(
            "UPDATE passes SET report = ? WHERE pass_number = ?",
            (report.model_dump_json(), number),
        )
        self._db.execute("UPDATE master SET pass_number = ?", (number + 1,))

    def begin(self, number: int) -> None:
        """Make the counters of a pass."""
        self._db.execute("INSERT INTO passes (pass_number) VALUES (?)", (number,))

    def count(self, counter: str, amount: int) -> None:
        """Add to a counter of the last pass that was begun."""
        if amount:
            self._db.execute(
                f"UPDATE passes SET {counter} = {counter} + ?"  # noqa: S608 (fixed names)
                " WHERE pass_number = (SELECT max(pass_number) FROM passes)",
                (amount,),
            )

    def counters(self, number: int) -> dict[str, int]:
        """Return the counters of a pass, by name."""
        names = ", ".join(_COUNTERS)
        row = self._db.execute(
            f"SELECT {names} FROM passes WHERE pass_number = ?",  # noqa: S608 (fixed names)
            (number,),
        ).fetchone()
        return dict(zip(_COUNTERS, row, strict=True))

    def report(self, number: int) -> PassReport:
        """Return the account of a pass that has ended."""
        text = self._one("SELECT report FROM passes WHERE pass_number = ?", number)
        # Reports that came after the last pass have no later pass to be counted in.
        ignored = self._one("SELECT ignored FROM passes WHERE pass_number = ?", number)
        return PassReport.model_validate_json(text).model_copy(update={"ignored": ignored})

    def last_reports(self, most: int) -> tuple[PassReport, ...]:
        """Return the accounts of the last passes that have ended, in order."""
        ended = self._db.execute(
            "SELECT pass_number FROM passes WHERE report != '' ORDER BY pass_number DESC LIMIT ?",
            (most,),
        ).fetchall()
        return tuple(self.report(number) for (number,) in reversed(ended))

    def _one(self, statement: str, *values: object) -> Any:
        return self._db.execute(statement, values).fetchone()[0]


# --- The tasks of a master in its state file: each row has a state, a place, and its latest lease

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
