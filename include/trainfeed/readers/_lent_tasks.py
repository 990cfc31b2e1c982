"""The leases that a trainer holds in a pass, and what the master is told of them.

Reports travel with the next request for tasks, so the state between two requests is kept here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from trainfeed.dispatch import Failure
from trainfeed.errors import LoaderError
from trainfeed.printable_text import printable

if TYPE_CHECKING:
    from trainfeed.dispatch import Answer, Lease, MasterClient, PassReport, Served

__all__ = ["LentTasks"]

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
