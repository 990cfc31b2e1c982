"""Messages between a master and its trainers, as JSON with these fields and no others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# Most tasks in one list of a message.
MAX_TASKS = 1000

# The largest whole number of the state file; a larger one is refused as it comes in.
_LARGEST = 2**63 - 1

_Number = Annotated[int, Field(ge=0, le=_LARGEST)]
_Count = Annotated[int, Field(ge=1, le=_LARGEST)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Message(BaseModel):
    """A message: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Lease(Message):
    """A task that is lent to a trainer, and the number of times that it was lent until then."""

    task: _Number
    epoch: _Count


class Failure(Lease):
    """A lent task that its trainer could not read, and the reason."""

    reason: Annotated[str, Field(max_length=500)]


_Leases = Annotated[tuple[Lease, ...], Field(max_length=MAX_TASKS, strict=False)]


class Ask(Message):
    """A request of a trainer: what became of its tasks, and how many it wants.

    Attributes:
        data: Digest of the task list that the trainer reads.
        pass_number: The pass that it reads.
        trainer: Random name of the trainer's pass.
        number: Number of the request; the same number again gets the same answer again.
        finished: Tasks whose samples were used.
        failed: Tasks that could not be read.
        returned: Tasks that are given back unread, without blame.
        held: Tasks that the trainer still works on; their time starts again.
        want: Tasks that it wants at most.
    """

    data: _Digest
    pass_number: _Number
    trainer: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    number: _Count
    finished: _Leases = ()
    failed: Annotated[tuple[Failure, ...], Field(max_length=MAX_TASKS, strict=False)] = ()
    returned: _Leases = ()
    held: _Leases = ()
    want: Annotated[int, Field(ge=0, le=MAX_TASKS)] = 0


class FailedTask(Message):
    """A task that failed too often in a pass: its number, the last reason, and how often."""

    task: _Number
    reason: str
    failures: _Number


class PassReport(Message):
    """The account of a pass; ``tasks`` is ``done`` + ``failed`` when it has ended.

    Attributes:
        pass_number: Number of the pass, from 0.
        tasks: Tasks of the pass.
        done: Tasks that were finished.
        failed: Tasks that failed too often.
        leases: Times that a task was lent.
        timeouts: Leases that ran out.
        failures: Leases that a trainer reported as failed.
        returns: Leases that were given back.
        ignored: Reports that came too late or twice.
        failed_tasks: The failed ones, at most 100 of them.
    """

    pass_number: _Number
    tasks: _Number
    done: _Number
    failed: _Number
    leases: _Number
    timeouts: _Number
    failures: _Number
    returns: _Number
    ignored: _Number
    failed_tasks: Annotated[tuple[FailedTask, ...], Field(strict=False)] = ()


class Answer(Message):
    """The answer of the master.

    Attributes:
        state: ``leased``: there are tasks, or none was wanted; ``wait``: all remaining tasks are
            lent to others and may come back; ``ended``: the pass has ended.
        leases: The tasks that are lent now.
        lost: Tasks of ``held`` that are no longer lent to this trainer.
        ignored: Number of reports that came too late or twice.
        lease_seconds: Time until a lease runs out.
        wait_seconds: Time after which to ask again, for ``wait``.
        report: The account of the pass, for ``ended``; of the last one when all have ended.
    """

    state: Literal["leased", "wait", "ended"]
    leases: _Leases = ()
    lost: _Leases = ()
    ignored: _Number = 0
    lease_seconds: float
    wait_seconds: float = 0.0
    report: PassReport | None = None


class Served(Message):
    """What a master serves: versions of one split, cut to tasks.

    Attributes:
        name: Name of the data set.
        split: Name of the split.
        versions: ``INTERVAL/GENERATION`` of each version, in order.
        manifests: SHA-256 of their manifests.
        chunks_per_task: Chunks in a task.
        seed: Seed of the order of tasks.
        digest: Digest of all of these.
        tasks: Number of tasks.
        pass_number: The current pass.
        passes: Number of passes; None for no end.
    """

    name: str
    split: str
    versions: Annotated[tuple[str, ...], Field(strict=False)]
    manifests: Annotated[tuple[_Digest, ...], Field(strict=False)]
    chunks_per_task: Annotated[int, Field(ge=1)]
    seed: int
    digest: _Digest
    tasks: _Number
    pass_number: _Number
    passes: int | None


class Status(Message):
    """The state of a master, for people and scripts.

    Attributes:
        served: What is served.
        todo: Tasks that nobody has.
        pending: Tasks that are lent.
        current: The account of the current pass so far, or of the last one.
        ended: The accounts of the last passes, the newest last; at most 20.
    """

    served: Served
    todo: _Number
    pending: _Number
    current: PassReport
    ended: Annotated[tuple[PassReport, ...], Field(strict=False)]

    @property
    def is_over(self) -> bool:
        """Whether the last pass has ended."""
        return self.served.passes is not None and self.served.pass_number >= self.served.passes
