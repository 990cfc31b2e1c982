"""The queue of a master: the tasks of a list, to do, lent, done or failed, in passes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.serving.dispatch.messages import (
    Answer,
    Ask,
    Failure,
    Lease,
    PassReport,
    Served,
    Status,
)
from trainfeed.serving.dispatch.state import (
    DONE,
    FAILED,
    PENDING,
    TODO,
    PassRows,
    QueueOptions,
    TaskRows,
    open_state,
    part,
    transaction,
)
from trainfeed.versions import DatasetFolder, Version, published_root
from trainfeed.versions.layout import parse_generation
from trainfeed.versions.tag import TaggedData
from trainfeed.versions.version import ShardChunk

# --- The task list: the chunks of published versions, in groups, with a digest that names the list


@dataclass(frozen=True)
class TaskSpan:
    """One chunk of a task.

    Attributes:
        version: The version.
        path: File of the shard; of a version in a bucket, as its folder would have it.
        chunk: Place and size of the chunk.
    """

    version: Version
    path: Path
    chunk: ShardChunk


@dataclass(frozen=True)
class TaskList:
    """The tasks of a split of versions.

    Attributes:
        name: Name of the data set.
        split: Name of the split.
        versions: The versions, in order.
        chunks_per_task: Chunks in a task; the last task may have fewer.
        seed: Seed of the order of tasks in a pass.
    """

    name: str
    split: str
    versions: tuple[Version, ...]
    chunks_per_task: int = 1
    seed: int = 0

    @classmethod
    def of_range(
        cls,
        name: str,
        asked: str | None,
        split: str,
        *,
        chunks_per_task: int = 1,
        seed: int = 0,
        root: str | Path | None = None,
    ) -> TaskList:
        """Return the tasks of the published versions of a range, as ``open_dataset`` finds them.

        ``name`` may be ``NAME@TAG``, with None for all of the tag; the list keeps the versions that
        the tag names now.

        Raises:
            ConfigError: There is no such split, no chunk at all, or a number is below 1.
            NotFoundError: Nothing of the range is published.
            WindowIncompleteError: Intervals of the range are missing.
        """
        if chunks_per_task < 1:
            raise ConfigError(f"expected at least 1 chunk per task, got {chunks_per_task}")
        data = TaggedData(published_root(root), name)
        found = data.cover(asked)
        found.require("fail")
        tasks = cls(data.folder.name, split, found.versions, chunks_per_task, seed)
        if not tasks.num_tasks:
            raise ConfigError(
                f"expected chunks in split {split!r} of {name}/{found.asked}, got none; nothing is"
                " served"
            )
        return tasks

    @classmethod
    def of_served(cls, served: Served, folder: DatasetFolder) -> TaskList:
        """Return the list that a master serves, from this machine's view of the data set.

        Raises:
            ConflictError: The data set has other versions than the master.
            NotFoundError: A version is not here.
        """
        pairs = [each.rpartition("/") for each in served.versions]
        versions = tuple(
            Version.resolve(folder, interval, parse_generation(generation))
            for interval, _, generation in pairs
        )
        tasks = cls(served.name, served.split, versions, served.chunks_per_task, served.seed)
        if tasks.digest != served.digest or tasks.num_tasks != served.tasks:
            raise ConflictError(
                f"expected the versions of the master, with the digest {served.digest[:16]}…, got"
                f" {tasks.digest[:16]}… in {folder.path}; nothing was read; read the publication"
                " root that the master serves"
            )
        return tasks

    @cached_property
    def digest(self) -> str:
        """SHA-256 of data set, split, manifests, size of tasks and seed."""
        identity = {
            "name": self.name,
            "split": self.split,
            "versions": [version.name for version in self.versions],
            "manifests": [version.manifest_sha256 for version in self.versions],
            "chunks_per_task": self.chunks_per_task,
            "seed": self.seed,
        }
        return hashlib.sha256(canonical_json.dumps(identity)).hexdigest()

    @cached_property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return -(-len(self._spans) // self.chunks_per_task)

    @cached_property
    def _spans(self) -> list[TaskSpan]:
        spans = []
        for version in self.versions:
            # Who reads a task looks at the shards: a trainer that lacks one stops no master.
            paths = version.shard_paths(self.split, sizes=False)
            spans += [
                TaskSpan(version, paths[chunk.shard], chunk) for chunk in version.chunks(self.split)
            ]
        return spans

    def chunks(self, task: int) -> Sequence[TaskSpan]:
        """Return the chunks of a task, in order.

        Raises:
            ConfigError: There is no such task.
        """
        if not 0 <= task < self.num_tasks:
            raise ConfigError(f"expected a task below {self.num_tasks}, got {task}")
        first = task * self.chunks_per_task
        return self._spans[first : first + self.chunks_per_task]

    def order(self, pass_number: int) -> list[int]:
        """Return the order in which the tasks of a pass are lent: a function of seed and pass."""
        start = f"{self.seed}:{pass_number}:"
        keys = {
            task: hashlib.sha256(f"{start}{task}".encode()).digest()
            for task in range(self.num_tasks)
        }
        return sorted(keys, key=keys.__getitem__)

    def served(self, pass_number: int, passes: int | None) -> Served:
        """Return the description for trainers."""
        return Served(
            name=self.name,
            split=self.split,
            versions=tuple(version.name for version in self.versions),
            manifests=tuple(version.manifest_sha256 for version in self.versions),
            chunks_per_task=self.chunks_per_task,
            seed=self.seed,
            digest=self.digest,
            tasks=self.num_tasks,
            pass_number=pass_number,
            passes=passes,
        )


# --- The queue of a master: tasks that are to do, lent, done or failed, in passes

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
