"""Random trainers, clocks, lost answers and restarts of the master, against an oracle."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.serving.dispatch.queues import Clock, Master, Trainer, failure

TASKS = 5
LEASE_SECONDS, HOLD_SECONDS = 10.0, 25.0


class Oracle:
    """The rules of the queue, written as plainly as possible."""

    def __init__(self):
        self.epochs = dict.fromkeys(range(TASKS), 0)
        self.begin(0)

    def begin(self, number):
        self.number = number
        self.state = dict.fromkeys(range(TASKS), "todo")
        self.failures = dict.fromkeys(range(TASKS), 0)
        self.lent = {}
        self.counts = dict.fromkeys(("leases", "timeouts", "failures", "returns", "ignored"), 0)

    def lend(self, leases, now):
        for lease in leases:
            assert self.state[lease.task] == "todo"
            self.epochs[lease.task] += 1
            assert lease.epoch == self.epochs[lease.task]
            self.state[lease.task] = "pending"
            self.lent[lease.task] = (lease.epoch, now, now + LEASE_SECONDS)
            self.counts["leases"] += 1

    def is_lent(self, lease):
        return lease.task in self.lent and self.lent[lease.task][0] == lease.epoch

    def end(self, task, state):
        del self.lent[task]
        self.state[task] = state

    def blame(self, task):
        self.failures[task] += 1
        self.end(task, "failed" if self.failures[task] == 3 else "todo")

    def expire(self, now):
        for task, (_, _, due) in list(self.lent.items()):
            if due <= now:
                self.counts["timeouts"] += 1
                self.blame(task)
        self.advance()

    def advance(self):
        if not {"todo", "pending"} & set(self.state.values()):
            self.begin(self.number + 1)


class Queue(RuleBasedStateMachine):
    """A master and its trainers; every lease that was ever given may be reported at any time."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock, self.oracle = Clock(), Oracle()
        self.given = []
        self.open()
        self.trainers = [Trainer(self.master) for _ in range(3)]

    def open(self):
        self.master = Master(
            Path(self.folder.name) / "state",
            TASKS,
            self.clock,
            lease_seconds=LEASE_SECONDS,
            hold_seconds=HOLD_SECONDS,
        )

    @rule(
        who=st.integers(0, 2),
        want=st.integers(0, 3),
        reports=st.lists(
            st.tuples(st.sampled_from(["finished", "failed", "returned", "held"]), st.integers(0)),
            max_size=4,
        ),
        is_lost=st.booleans(),
    )
    def ask(self, who, want, reports, is_lost):
        chosen = {"finished": [], "failed": [], "returned": [], "held": []}
        for kind, number in reports if self.given else ():
            chosen[kind].append(self.given[number % len(self.given)])
        trainer = self.trainers[who]
        number = self.oracle.number
        told = {**chosen, "failed": [failure(lease) for lease in chosen["failed"]]}
        answer = trainer.ask(want, pass_number=number, **told)
        if is_lost and answer.state != "wait":
            assert self.master.ask(trainer.last) == answer
        self.compare(answer, chosen, number)

    def compare(self, answer, chosen, number):
        oracle, now = self.oracle, self.clock.now
        oracle.expire(now)
        ignored = 0
        for kind, state in (("finished", "done"), ("failed", None), ("returned", "todo")):
            for lease in chosen[kind]:
                if not oracle.is_lent(lease):
                    ignored += 1
                elif kind == "failed":
                    oracle.counts["failures"] += 1
                    oracle.blame(lease.task)
                else:
                    oracle.counts["returns"] += kind == "returned"
                    oracle.end(lease.task, state)
        oracle.counts["ignored"] += ignored
        lost = [lease for lease in chosen["held"] if not oracle.is_lent(lease)]
        for lease in chosen["held"]:
            if oracle.is_lent(lease):
                epoch, since, _ = oracle.lent[lease.task]
                oracle.lent[lease.task] = (
                    epoch, since, min(now + LEASE_SECONDS, since + HOLD_SECONDS)
                )  # fmt: skip
        oracle.advance()
        assert answer.ignored == ignored
        assert list(answer.lost) == lost
        assert (answer.state == "ended") == (oracle.number > number)
        if answer.state == "ended":
            assert answer.report.done + answer.report.failed == TASKS
        oracle.lend(answer.leases, now)
        self.given += answer.leases

    @rule(seconds=st.floats(0.1, 12.0))
    def wait(self, seconds):
        self.clock.now += seconds

    @rule()
    def restart(self):
        self.master.queue.close()
        self.clock.now -= 500.0
        # Times of the oracle move with the clock, and every lease gets its full time again.
        for task, (epoch, _, _) in self.oracle.lent.items():
            now = self.clock.now
            self.oracle.lent[task] = (epoch, now, now + LEASE_SECONDS)
        self.open()
        for trainer in self.trainers:
            trainer.master = self.master

    @invariant()
    def the_status_is_that_of_the_oracle(self):
        status = self.master.status()
        self.oracle.expire(self.clock.now)
        states = list(self.oracle.state.values())
        assert status.current.pass_number == self.oracle.number
        assert (status.todo, status.pending) == (states.count("todo"), states.count("pending"))
        assert status.current.done == states.count("done")
        assert status.current.failed == states.count("failed")
        for name, count in self.oracle.counts.items():
            assert getattr(status.current, name) == count, name
        # Every lease ends in one way.
        current = status.current
        assert current.leases == (
            status.pending + current.done + current.timeouts + current.failures + current.returns
        )

    def teardown(self):
        self.master.queue.close()
        self.folder.cleanup()


Queue.TestCase.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
test_the_queue_does_what_its_rules_say = Queue.TestCase
