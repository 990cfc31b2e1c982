"""The state of a master: one SQLite file, which one process has open at a time.

A transaction is durable when it is committed: SQLite's log is synced at every commit (WAL,
synchronous FULL), so an answer that is sent after it survives SIGKILL and a loss of power.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError, ConflictError, StorageError

__all__ = ["DONE", "FAILED", "PENDING", "TODO", "QueueOptions", "open_state", "part", "transaction"]

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
