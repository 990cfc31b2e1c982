"""Samples of the tasks that a master lends: trainers come and go, and every chunk is read."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError, FormatError, LoaderError, ServiceError, StorageError
from trainfeed.readers.blocks import RowForm, Sample, rows
from trainfeed.readers.published import data_at
from trainfeed.readers.split_chunks import SplitChunks
from trainfeed.recordio import split_records
from trainfeed.samples import TypedCodec
from trainfeed.serving.dispatch import Failure, TaskList
from trainfeed.versions.layout import check_name

if TYPE_CHECKING:
    from trainfeed.remote import RemoteRoot
    from trainfeed.serving.dispatch import Answer, Lease, MasterClient, PassReport, Served, TaskSpan
    from trainfeed.serving.server import Access


# --- The leases that a trainer holds in a pass, and what the master is told of them

_log: Final = logging.getLogger("trainfeed.readers")
_MAX_REASON_CHARS: Final = 500
# With their reasons they have room, beside 1,000 leases, in a body that a master takes.
_FAILURES_AT_ONCE: Final = 20
# A trainer that cannot read so many tasks one after another leaves them to others.
_FAILURES_IN_A_ROW: Final = 3


class LentTasks:
    """The tasks of one trainer in one pass.

    Args:
        client: The connection to the master.
        served: The description that the master gave at the start of the pass.
        tasks_per_lease: Tasks that are asked for at a time.

    Attributes:
        finished: Leases of tasks that were read and are not reported yet.
        failed: Failures that are not reported yet.
        report: The master's account of the pass; None before its end.
    """

    def __init__(self, client: MasterClient, served: Served, tasks_per_lease: int) -> None:
        self.finished: list[Lease] = []
        self.failed: list[Failure] = []
        self.report: PassReport | None = None
        self._client = client
        self._served = served
        self._tasks_per_lease = tasks_per_lease
        self._leases: deque[Lease] = deque()
        self._current: Lease | None = None
        self._failures_in_a_row = 0
        self._renew_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the master has not been told everything."""
        return bool(self.finished or self.failed or self.unread())

    def unread(self) -> list[Lease]:
        """Return the tasks that are not finished."""
        return [*([self._current] if self._current else []), *self._leases]

    def next(self) -> Lease | None:
        """Return the next task to read; None at the end of the pass."""
        while not self._leases and self.report is None:
            answer = self._exchange(self._tasks_per_lease)
            if answer.state == "wait":
                threading.Event().wait(answer.wait_seconds)
        self._current = self._leases.popleft() if self._leases else None
        return self._current

    def finish(self, lease: Lease) -> None:
        """Note that the samples of a task were used."""
        self.finished.append(lease)
        self._current = None
        self._failures_in_a_row = 0

    def fail(self, lease: Lease, error: Exception) -> None:
        """Note that a task cannot be read.

        Raises:
            LoaderError: None of the last three could be read.
        """
        text = printable(f"{type(error).__name__}: {error}")[:_MAX_REASON_CHARS]
        self.failed.append(Failure(task=lease.task, epoch=lease.epoch, reason=text))
        self._current = None
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= _FAILURES_IN_A_ROW:
            raise LoaderError(
                f"expected chunks of {self._served.name}, {self._failures_in_a_row} tasks one after"
                f" another could not be read here, the last: {text}; all were reported to the"
                " master; look whether the publication root is mounted whole"
            ) from error

    def renew(self) -> None:
        """Tell the master that this trainer still reads, if a third of the lease has passed."""
        if time.monotonic() >= self._renew_at:
            self._exchange(0)

    def _exchange(self, want: int) -> Answer:
        held, failed = self.unread(), self.failed[:_FAILURES_AT_ONCE]
        answer = self._client.ask(
            self._served, finished=self.finished, failed=failed, held=held, want=want
        )
        self.finished, self.failed = [], self.failed[_FAILURES_AT_ONCE:]
        self._renew_at = time.monotonic() + answer.lease_seconds / 3
        lost = set(answer.lost)
        if lost or answer.ignored:
            _log.warning(
                "the leases of %d tasks ran out in this trainer; they are read again; a longer"
                " lease avoids it",
                max(len(lost), answer.ignored),
            )
        self._leases = deque(lease for lease in self._leases if lease not in lost)
        self._leases += answer.leases
        self.report = answer.report
        return answer


# --- Samples of the tasks that a master lends: trainers come and go, and every chunk is read

_FAREWELL_SECONDS: Final = 5.0


def dispatched(  # noqa: PLR0913 (all but the address are optional)
    url: str,
    *,
    name: str | None = None,
    split: str | None = None,
    root: str | Path | None = None,
    access: Access | None = None,
    tasks_per_lease: int = 4,
    patience_seconds: float = 60.0,
) -> DispatchedReader:
    """Return a reader over the tasks that a master lends; every call joins the current pass.

    Samples are those of ``open_dataset(…).reader()``, in the order of the tasks that this trainer
    gets. The versions are read from the publication root of this machine, whose manifests must be
    those of the master; shards at a store come through the cache. Each chunk of a pass is read at
    least once by some trainer: once, unless a trainer is killed, hangs or fails.

    Args:
        url: The master, ``https://HOST:PORT``, or ``http://`` on this machine.
        name: The data set that the master must serve; None takes any.
        split: The split that the master must serve; None takes any.
        root: The publication root, also at a store, as ``open_dataset`` takes it;
            ``TRAINFEED_ROOT`` or its default when None.
        access: Token and certificates; None for the files that the environment names.
        tasks_per_lease: Tasks that are leased at a time, from 1 to 1000.
        patience_seconds: Time that a request waits for a master that is away.

    Raises:
        ConfigError: An argument is not valid. Raised by a pass: the master serves another data set
            or split.
        ConflictError: Raised by a pass: the root has other versions than the master.
        LoaderError: Raised at the end of a pass: tasks failed too often, and their chunks were not
            read; or the master has served all of its passes. Raised by a pass: this trainer could
            read none of three tasks.
        ServiceUnreachableError: Raised by a pass: the master was away for ``patience_seconds``.
        ServiceDeniedError: Raised by a pass: the token is refused.
        ServiceRefusedError: Raised by a pass: the master serves other data now.
    """
    if not 1 <= tasks_per_lease <= 1000:
        raise ConfigError(f"expected 1 to 1000 tasks per lease, got {tasks_per_lease}")
    wanted = (name, split)
    return DispatchedReader(url, wanted, root, access, tasks_per_lease, patience_seconds)


class _OpenedTasks(NamedTuple):
    """The tasks of a master, and the root at a store that their shards are in, if they are."""

    tasks: TaskList
    remote: RemoteRoot | None


class DispatchedReader:
    """A reader over the tasks that a master lends.

    Attributes:
        report: The master's account of the last pass that this reader read to its end; None before.
    """

    def __init__(
        self,
        url: str,
        wanted: tuple[str | None, str | None],
        root: str | Path | None,
        access: Access | None,
        tasks_per_lease: int,
        patience_seconds: float,
    ) -> None:
        self.report: PassReport | None = None
        self._url = url
        self._wanted = wanted
        self._root = root
        self._access = access
        self._tasks_per_lease = tasks_per_lease
        self._patience_seconds = patience_seconds
        self._known: _OpenedTasks | None = None

    def __call__(self) -> Iterator[Sample]:
        """Join the current pass."""
        with self._client(self._patience_seconds) as client:
            served = self._checked(client.served())
            tasks, remote = self._tasks(served)
            work = LentTasks(client, served, self._tasks_per_lease)
            try:
                with closing(SplitChunks(tasks.versions, tasks.split, remote)) as chunks:
                    while (lease := work.next()) is not None:
                        yield from _samples(tasks.chunks(lease.task), chunks, lease, work)
            finally:
                self._take_leave(served, work)
            self.report = work.report
        _require_whole(served, self.report, tasks)

    def _client(self, patience_seconds: float) -> MasterClient:
        # Imported here: the packages of the extra `server` are for this reader only.
        from trainfeed.serving.dispatch import MasterClient

        return MasterClient(self._url, self._access, patience_seconds=patience_seconds)

    def _checked(self, served: Served) -> Served:
        name, split = self._wanted
        if name not in (None, served.name) or split not in (None, served.split):
            raise ConfigError(
                f"expected a master of {name or 'any data set'}, split {split or 'any'}, got one of"
                f" {served.name}, split {served.split}, at {self._url}; nothing was read"
            )
        if served.passes is not None and served.pass_number >= served.passes:
            raise LoaderError(
                f"expected a pass of {served.name}, the master at {self._url} has ended all of its"
                f" {served.passes}; start a master with another state file for more"
            )
        return served

    def _tasks(self, served: Served) -> _OpenedTasks:
        if self._known is None or self._known.tasks.digest != served.digest:
            with data_at(self._root, check_name(served.name)) as (data, remote):
                self._known = _OpenedTasks(TaskList.of_served(served, data.folder), remote)
        return self._known

    def _take_leave(self, served: Served, work: LentTasks) -> None:
        """Report what was used, and give back what was not; otherwise the leases run out."""
        if not work.is_open:
            return
        try:
            with self._client(_FAREWELL_SECONDS) as client:
                client.ask(
                    served,
                    finished=work.finished,
                    # Of more, the leases run out: a farewell is one message.
                    failed=work.failed[:_FAILURES_AT_ONCE],
                    returned=work.unread(),
                )
        except ServiceError as error:
            _log.warning("the master was not told of the end of this trainer: %s", error)


def _samples(
    spans: Sequence[TaskSpan], chunks: SplitChunks, lease: Lease, work: LentTasks
) -> Iterator[Sample]:
    for span in spans:
        try:
            samples = _decoded(span, chunks)
        except (FormatError, StorageError) as error:
            work.fail(lease, error)
            return
        for sample in samples:
            work.renew()
            yield sample
    work.finish(lease)


def _decoded(span: TaskSpan, chunks: SplitChunks) -> Iterator[Sample]:
    """Return the samples of a chunk; all of it is read and decoded here."""
    info, schema = span.chunk.info, span.version.schema
    codec = TypedCodec(schema)
    framing = chunks.framing(span.version, span.chunk)
    try:
        if schema.is_fixed:
            return rows(codec.decode_records(framing, info.num_records), RowForm.MAPPING)
        records = split_records(framing, info.num_records)
        return iter([codec.decode(record) for record in records])
    except FormatError as error:
        error.path = error.path or str(span.path)
        raise


def _require_whole(served: Served, report: PassReport | None, tasks: TaskList) -> None:
    if report is None or not report.failed:
        return
    shown = "; ".join(
        f"task {each.task} ({_place(tasks, each.task)}): {each.reason}"
        for each in report.failed_tasks[:3]
    )
    raise LoaderError(
        f"expected all {report.tasks} tasks of pass {report.pass_number} of {served.name}, split"
        f" {served.split}, {report.failed} failed too often: {shown}; the samples of the others"
        " were read; repair the versions, the next pass tries the tasks again"
    )


def _place(tasks: TaskList, task: int) -> str:
    first = tasks.chunks(task)[0]
    return f"{first.version.name}/{first.path.name}"
