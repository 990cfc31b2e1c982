"""The queue of a master: leases, time-outs, failures, passes, and a state that survives."""

import sqlite3
from contextlib import suppress

import pytest

from tests.unit.serving.dispatch.queues import Clock, Master, Tasks, Trainer, failure, lease_of
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.serving.dispatch import QueueOptions, TaskQueue


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.sqlite"


@pytest.fixture
def master(path):
    master = Master(path)
    yield master
    master.queue.close()


def test_a_pass_lends_every_task_once_and_ends(master):
    trainer = Trainer(master)
    first = trainer.lease(3)
    assert [lease.task for lease in first] == [0, 1, 2]
    second = trainer.lease(3, finished=first)
    assert [lease.task for lease in second] == [3]
    ended = trainer.ask(finished=second)
    assert ended.state == "ended"
    assert (ended.report.tasks, ended.report.done, ended.report.leases) == (4, 4, 4)
    assert [lease.task for lease in Trainer(master).lease(4, pass_number=1)] == [3, 2, 1, 0]


def test_a_pass_does_not_end_while_a_task_is_lent(master):
    slow, fast = Trainer(master), Trainer(master)
    (kept,) = slow.lease(1)
    rest = fast.lease(10)
    answer = fast.ask(10, finished=rest)
    assert answer.state == "wait"
    assert 0 < answer.wait_seconds <= 1
    master.clock.now += 11
    again = fast.ask(10)
    assert again.leases == (lease_of(kept.task, 2),)
    assert slow.ask(finished=[kept]).ignored == 1
    report = fast.ask(finished=again.leases).report
    assert (report.done, report.timeouts, report.ignored) == (4, 1, 1)


def test_a_lease_that_is_held_stays_until_the_longest_time(master):
    trainer = Trainer(master)
    (lease,) = trainer.lease()
    for _ in range(11):
        master.clock.now += 9
        assert trainer.ask(held=[lease]).lost == ()
    master.clock.now += 2
    assert trainer.ask(held=[lease]).lost == (lease,)
    assert master.status().current.timeouts == 1


def test_a_task_that_fails_too_often_is_reported_and_the_pass_goes_on(master):
    trainer = Trainer(master)
    leases = trainer.lease(4)
    bad, good = leases[0], leases[1:]
    answer = trainer.ask(4, failed=[failure(bad, "first")], finished=good)
    answer = trainer.ask(4, failed=[failure(answer.leases[0], "second")])
    report = trainer.ask(4, failed=[failure(answer.leases[0], "third")]).report
    assert (report.done, report.failed, report.failures) == (3, 1, 3)
    (failed,) = report.failed_tasks
    assert (failed.task, failed.reason, failed.failures) == (bad.task, "third", 3)
    assert bad.task in {lease.task for lease in trainer.lease(4, pass_number=1)}


def test_a_failed_task_is_lent_behind_the_others(master):
    trainer = Trainer(master)
    (bad,) = trainer.lease(1)
    rest = trainer.lease(4, failed=[failure(bad)])
    assert [lease.task for lease in rest] == [1, 2, 3, 0]


def test_time_outs_count_as_failures(master):
    for _ in range(3):
        Trainer(master).lease(4)
        master.clock.now += 11
    status = master.status()
    assert (status.ended[0].failed, status.ended[0].timeouts) == (4, 12)
    assert "ran out" in status.ended[0].failed_tasks[0].reason


def test_a_task_that_is_given_back_is_not_blamed(master):
    trainer = Trainer(master)
    for _ in range(5):
        leases = trainer.lease(4)
        trainer.ask(returned=leases)
    assert (master.status().todo, master.status().current.returns) == (4, 20)


def test_a_report_that_comes_twice_is_counted_and_ignored(master):
    trainer = Trainer(master)
    leases = trainer.lease(2)
    assert trainer.ask(finished=[leases[0], leases[0]]).ignored == 1
    assert trainer.ask(finished=leases, failed=[failure(leases[0])]).ignored == 2
    status = master.status()
    assert (status.current.done, status.current.ignored) == (2, 3)


def test_the_same_request_gets_the_same_answer(master):
    trainer = Trainer(master)
    leases = trainer.lease(2)
    assert master.ask(trainer.last).leases == leases
    assert master.status().pending == 2
    done = trainer.ask(2, finished=leases)
    assert master.ask(trainer.last) == done
    assert master.status().current.ignored == 0


def test_an_old_request_is_refused(master):
    trainer = Trainer(master)
    trainer.lease(1)
    trainer.lease(1)
    with pytest.raises(ConflictError, match="after number 2"):
        trainer.ask(1, number=1)
    assert master.status().pending == 2


def test_other_data_a_later_pass_and_leases_of_nobody_are_refused(master):
    trainer = Trainer(master)
    (lease,) = trainer.lease()
    with pytest.raises(ConflictError, match="serves other versions"):
        trainer.ask(1, data="1" * 64)
    with pytest.raises(ConflictError, match="pass up to 0, got 1"):
        trainer.ask(1, pass_number=1)
    for task, epoch in ((lease.task, 2), (3, 1), (99, 1)):
        with pytest.raises(ConfigError, match="expected a task that was lent"):
            trainer.ask(1, finished=[lease, lease_of(task, epoch)])
    status = master.status()
    assert (status.pending, status.current.done) == (1, 0)


def test_a_late_report_of_an_earlier_pass_changes_nothing_in_the_next(master):
    trainer, late = Trainer(master), Trainer(master)
    (kept,) = late.lease(1)
    rest = trainer.lease(4)
    master.clock.now += 9
    trainer.ask(finished=rest)
    master.clock.now += 2
    trainer.ask(finished=trainer.lease(4))
    assert master.status().current.pass_number == 1
    (new,) = [e for e in trainer.lease(4, pass_number=1) if e.task == kept.task]
    answer = late.ask(finished=[kept])
    assert (answer.state, answer.ignored) == ("ended", 1)
    assert Trainer(master).ask(held=[new], pass_number=1).lost == ()


def test_after_the_last_pass_nothing_is_lent(path):
    master = Master(path, passes=1)
    trainer = Trainer(master)
    leases = trainer.lease(4)
    assert trainer.ask(4, finished=leases).state == "ended"
    status = master.status()
    assert status.is_over
    assert (status.todo, status.pending, status.current.done) == (0, 0, 4)
    assert trainer.ask(4, finished=leases).ignored == 4
    assert master.status().current.ignored == 4
    with pytest.raises(ConflictError, match="pass up to 1, got 2"):
        trainer.ask(4, pass_number=2)
    master.queue.close()


def test_a_restarted_master_goes_on_where_it_was(path):
    clock = Clock()
    master = Master(path, clock=clock)
    trainer = Trainer(master)
    leases = trainer.lease(3)
    trainer.ask(finished=leases[:1], failed=[failure(leases[1])])
    before = master.status()
    master.queue.close()
    clock.now = 5.0  # another boot: the clock begins again
    master = Master(path, clock=clock)
    assert master.status() == before
    clock.now += 9
    assert trainer.name
    trainer.master = master
    assert trainer.ask(held=[leases[2]]).lost == ()
    clock.now += 11
    assert master.status().current.timeouts == 1
    master.queue.close()


def test_what_was_not_committed_did_not_happen(master):
    trainer = Trainer(master)
    trainer.lease(1)
    before = master.status()
    master.ask = master.queue.answer
    with suppress(RuntimeError), master.queue.transaction():
        assert len(trainer.lease(3)) == 3
        raise RuntimeError
    assert master.status() == before


def test_a_second_master_of_one_state_is_refused(path, master):
    with pytest.raises(ConflictError, match="another process has it open"):
        Master(path)


def test_a_state_of_other_data_is_refused_and_left(path, master):
    master.queue.close()
    options = QueueOptions()
    with pytest.raises(ConflictError, match="other data"):
        TaskQueue(path, Tasks(4, "1" * 64), options, Clock())
    Master(path).queue.close()


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be read" * 100])
def test_a_file_that_is_no_state_is_refused_and_left(path, content):
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="expected the state of a master"):
        Master(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE things (a)")
    other.close()
    with pytest.raises(ConfigError, match="expected the state of a master"):
        Master(path)


def test_the_state_is_closed_to_other_accounts_and_synced(path, master):
    assert path.stat().st_mode & 0o777 == 0o600
    assert master.queue._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert master.queue._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_seconds": 0},
        {"lease_seconds": 9, "hold_seconds": 8},
        {"max_failures": 0},
        {"passes": 0},
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        QueueOptions(**wrong)
