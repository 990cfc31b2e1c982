"""Errors of the work itself: code, functions, memory, gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfeed.errors._root import Outcome, TrainFeedError

__all__ = [
    "CodeChangedError",
    "EngineError",
    "GateError",
    "MemoryLimitError",
    "PreprocessError",
]


class CodeChangedError(TrainFeedError):
    """The running code or a library differs from that of the plan.

    Cause: A module of the data set, a lookup, trainfeed or a library changed after the interval was
        planned.
    Remedy: Build the interval again; in Airflow, trigger a new run. Landing files are kept.
    See docs/reference/errors.md#codechangederror
    """


class PreprocessError(TrainFeedError):
    """A user function raised, or returned a value that the schema forbids.

    Cause: The function raised, ended its process, took too long, or returned a value that the
        schema does not allow.
    Remedy: Fix the function at the record that the message shows, or raise `Reject` for records
        that are broken; then build the interval again.
    See docs/reference/errors.md#preprocesserror
    """


class EngineError(TrainFeedError):
    """A process that ran a user function was killed from outside, or Spark failed.

    Cause: The kernel ended a worker process for lack of memory, or a person or program killed it.
        Of Spark: an executor, the driver or the cluster was lost.
    Remedy: A scheduler tries again. If the error repeats, give the machine or container more
        memory, or lower `resources.processes` or `resources.memory_bytes`. Of Spark: the message
        has what Spark said, the log of the task all of it.
    See docs/reference/errors.md#engineerror
    """

    outcome = Outcome.RETRY


class MemoryLimitError(TrainFeedError):
    """The work does not fit the configured memory.

    Cause: A sample, a lookup, a function, a schema or a buffer takes more memory than the setting
        allows.
    Remedy: Raise the setting that the message names, or make the named sample, lookup or schema
        smaller.
    See docs/reference/errors.md#memorylimiterror
    """


class GateError(TrainFeedError):
    """Ledgers differ, or a quality gate of the spec is broken.

    ``report`` is small JSON for pages: counts, reasons with examples, gates; None when no gate of
    the spec is concerned. ``question`` is there if all gates that stop the build have the severity
    ``ask``: ``plan_sha256``, and these ``gates`` with limits and values.

    Cause: A count, a ratio or a range of `quality` does not hold, a metric is below `train.min` or
        does not pass the gate of `train.model`, or records were lost or doubled on the way.
    Remedy: Look at the reasons in the message and at `trainfeed quarantine show NAME/INTERVAL`; fix
        the source, the function or the gate, then build again; or let it pass with
        `trainfeed waive`.
    See docs/reference/errors.md#gateerror
    """

    report: Mapping[str, Any] | None = None
    question: Mapping[str, Any] | None = None

    def __init__(
        self,
        message: str,
        *,
        report: Mapping[str, Any] | None = None,
        question: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.report = report
        self.question = question
