"""Queues over task lists without data, and a clock that tests turn."""

import secrets
from dataclasses import dataclass

from trainfeed.serving.dispatch import Ask, Failure, Lease, QueueOptions, Served, TaskQueue

DIGEST = "0" * 64


@dataclass
class Tasks:
    """A task list without data; tasks are lent in ascending order, in odd passes descending."""

    num_tasks: int
    digest: str = DIGEST

    def order(self, pass_number):
        return list(range(self.num_tasks))[:: -1 if pass_number % 2 else 1]

    def served(self, pass_number, passes):
        return Served(
            name="clicks",
            split="train",
            versions=(),
            manifests=(),
            chunks_per_task=1,
            seed=0,
            digest=self.digest,
            tasks=self.num_tasks,
            pass_number=pass_number,
            passes=passes,
        )


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Master:
    """A queue without a server: every answer is committed, as the server commits it."""

    def __init__(self, path, tasks=4, clock=None, **options):
        self.clock = clock or Clock()
        chosen = {"lease_seconds": 10.0, "hold_seconds": 100.0, **options}
        self.queue = TaskQueue(path, Tasks(tasks), QueueOptions(**chosen), self.clock)

    def ask(self, ask):
        with self.queue.transaction():
            return self.queue.answer(ask)

    def status(self):
        with self.queue.transaction():
            return self.queue.status()


class Trainer:
    """The requests of one trainer."""

    def __init__(self, master):
        self.master = master
        self.name = secrets.token_hex(16)
        self.number = 0
        self.last = None

    def ask(self, want=0, *, pass_number=0, number=None, **reports):
        self.number = self.number + 1 if number is None else number
        self.last = Ask(
            data=reports.pop("data", DIGEST),
            pass_number=pass_number,
            trainer=self.name,
            number=self.number,
            want=want,
            **reports,
        )
        return self.master.ask(self.last)

    def lease(self, want=1, **more):
        return self.ask(want, **more).leases


def failure(lease, reason="torn"):
    return Failure(task=lease.task, epoch=lease.epoch, reason=reason)


def lease_of(task, epoch):
    return Lease(task=task, epoch=epoch)
