"""Commits of several requests at once: an error stays with its request, and with its changes."""

import asyncio
import sqlite3

import pytest

from tests.unit.serving.dispatch.queues import Master, Trainer
from trainfeed.errors import ConflictError, StorageError
from trainfeed.serving.dispatch.master import GroupCommit


@pytest.fixture
def master(tmp_path):
    master = Master(tmp_path / "state.sqlite")
    yield master
    master.queue.close()


def in_one_group(queue, *operations):
    """Results or errors of operations that share one transaction."""
    begun = []

    def transaction():
        begun.append(None)
        return queue.transaction()

    async def all_of_them():
        commits = GroupCommit(transaction, queue.part)
        try:
            return await asyncio.gather(*map(commits.run, operations), return_exceptions=True)
        finally:
            await commits.close()

    results = asyncio.run(all_of_them())
    assert len(begun) == 1
    return results


class Lender:
    """Lends one task to a trainer of its own, and then raises an error, if it has one."""

    def __init__(self, master, error=None):
        self.trainer = Trainer(master)
        self.error = error

    def __call__(self):
        self.trainer.master = self
        answer = self.trainer.lease(1)
        if self.error is not None:
            raise self.error
        return answer

    def bound(self, queue):
        self.ask = queue.answer
        return self


@pytest.mark.parametrize(
    "error", [OverflowError("too large"), TypeError("odd"), ConflictError("late"), MemoryError()]
)
def test_an_error_stays_with_its_request_and_undoes_its_changes_alone(master, error):
    lenders = [Lender(master), Lender(master, error), Lender(master)]
    first, odd, last = in_one_group(
        master.queue, *(lender.bound(master.queue) for lender in lenders)
    )
    assert odd is error
    assert [lease.task for lease in (*first, *last)] == [0, 1]
    assert (master.status().pending, master.status().current.leases) == (2, 2)


def test_a_value_that_the_state_refuses_fails_its_request_alone(master):
    refused = sqlite3.IntegrityError("NOT NULL constraint failed")
    lenders = [Lender(master, refused), Lender(master)]
    odd, given = in_one_group(master.queue, *(each.bound(master.queue) for each in lenders))
    assert isinstance(odd, StorageError)
    assert "NOT NULL" in str(odd)
    assert len(given) == master.status().pending == 1


def test_a_transaction_that_the_state_gave_up_fails_all_of_its_requests(master):
    def lost():
        master.queue._db.execute("ROLLBACK")  # as SQLite does when the disk is full
        raise sqlite3.OperationalError("database or disk is full")

    lenders = [Lender(master).bound(master.queue) for _ in range(2)]
    results = in_one_group(master.queue, lenders[0], lost, lenders[1])
    assert all(isinstance(result, StorageError) for result in results)
    assert all("disk is full" in str(result) for result in results)
    assert master.status().pending == 0


def test_a_commit_that_fails_fails_all_of_its_requests(master):
    def unbalanced():
        return master.queue._db.execute("INSERT INTO child VALUES (1)").rowcount

    master.queue._db.execute("PRAGMA foreign_keys=ON")
    master.queue._db.execute("CREATE TABLE parent (a INTEGER PRIMARY KEY)")
    master.queue._db.execute(
        "CREATE TABLE child (a REFERENCES parent DEFERRABLE INITIALLY DEFERRED)"
    )
    lender = Lender(master).bound(master.queue)
    results = in_one_group(master.queue, lender, unbalanced)
    assert all("FOREIGN KEY" in str(result) for result in results)
    assert all(isinstance(result, StorageError) for result in results)
    assert master.status().pending == 0
