"""Everything that trainfeed raises on purpose, and what a caller should do about it.

::

    TrainFeedError
    ├── ConfigError                 FAIL   a setting is missing or contradicts another
    │   ├── RootError               FAIL   the publication root is missing, or was never made one
    │   ├── SpecError               FAIL   a dataset.yaml is wrong; says where and what to do
    │   └── WindowError             FAIL   the interval is no tick of the schedule
    ├── WindowOpenError             RETRY  the interval has not settled yet; says when it will have
    │   └── TransactionOpenError    RETRY  an open transaction may hide records of the interval
    ├── CodeChangedError            FAIL   the running code is not the code of the plan
    ├── PreprocessError             FAIL   a user function raised, or broke its schema
    ├── EngineError                 RETRY  a process that ran a user function was killed
    ├── MemoryLimitError            FAIL   the work does not fit the memory; names the setting
    ├── FormatError                 FAIL   bytes on disk are not what their format says
    │   ├── BadMagicError           FAIL
    │   ├── ChecksumError           FAIL
    │   ├── TruncatedError          FAIL
    │   └── UnsupportedCodecError   FAIL
    ├── StorageError                RETRY  a file system refused or failed an operation
    │   ├── NotFoundError           FAIL
    │   ├── AccessDeniedError       FAIL
    │   ├── QuotaExceededError      FAIL
    │   ├── ConflictError           FAIL   another version, or another content, has the name
    │   ├── NonDeterminismError     FAIL   equal fingerprint, other bytes: impure code
    │   ├── CommitUnknownError      RETRY  nobody knows whether the commit took place
    │   └── UnsuitableStoreError    FAIL   the file system cannot hold versions (start-up probe)
    ├── IngestError                 RETRY  the source refused or failed an operation
    │   ├── SourceUnreachableError  RETRY  no answer in time, or no connection
    │   ├── TopicNotFoundError      FAIL
    │   ├── LogsMissingError        FAIL   a folder of logs was not complete in time
    │   ├── SourceReplacedError     FAIL   topic or file is not the one that was planned
    │   ├── OffsetOutOfRangeError   FAIL   retention deleted records; a person must decide
    │   └── EmptyUnprovenError      FAIL   nothing shows that the interval has no records
    ├── GateError                   FAIL   ledgers differ, or a quality gate of the spec is broken
    ├── LoaderError                 FAIL
    │   ├── PassEndedError          FAIL   a pass that is read by hand has no more batches
    │   ├── ReaderEndedError        FAIL   a reader ends before the position of a state
    │   ├── SampleShapeError        FAIL   samples and schema disagree; also a ValueError
    │   └── WorkerDiedError         RETRY  a worker process was killed, stopped, or has exited
    └── LaunchError                 RETRY  the launcher refused or failed an operation
        ├── WindowIncompleteError   RETRY  intervals of the asked window are not published yet
        ├── JobRejectedError        FAIL   the job specification is invalid
        ├── JobFailedError          FAIL   the job ran and failed by its own code
        └── JobKilledError          RETRY  a rank was killed, or lacked what another try may find

``outcome`` is policy for whoever schedules the work; trainfeed itself never acts on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar

__all__ = [
    "AccessDeniedError",
    "BadMagicError",
    "ChecksumError",
    "CodeChangedError",
    "CommitUnknownError",
    "ConfigError",
    "ConflictError",
    "EmptyUnprovenError",
    "EngineError",
    "FormatError",
    "GateError",
    "IngestError",
    "JobFailedError",
    "JobKilledError",
    "JobRejectedError",
    "LaunchError",
    "LoaderError",
    "LogsMissingError",
    "MemoryLimitError",
    "NonDeterminismError",
    "NotFoundError",
    "OffsetOutOfRangeError",
    "Outcome",
    "PassEndedError",
    "PreprocessError",
    "QuotaExceededError",
    "ReaderEndedError",
    "RootError",
    "SampleShapeError",
    "SourceReplacedError",
    "SourceUnreachableError",
    "SpecError",
    "StorageError",
    "TopicNotFoundError",
    "TrainFeedError",
    "TransactionOpenError",
    "TruncatedError",
    "UnsuitableStoreError",
    "UnsupportedCodecError",
    "WindowError",
    "WindowIncompleteError",
    "WindowOpenError",
    "WorkerDiedError",
]


class Outcome(Enum):
    """What a scheduler should do with a task that raised."""

    RETRY = "retry"
    FAIL = "fail"


class TrainFeedError(Exception):
    """Root of the tree. The message says what, where, what was kept, and what to do."""

    outcome: ClassVar[Outcome] = Outcome.FAIL


class ConfigError(TrainFeedError):
    """A setting is missing or contradicts another."""


class RootError(ConfigError):
    """The publication root is not there, or nobody has made the folder one on purpose."""


class SpecError(ConfigError):
    """A dataset.yaml is wrong."""


class WindowError(ConfigError):
    """The asked interval is no tick of the schedule, or lies outside of it."""


class WindowOpenError(TrainFeedError):
    """The interval cannot be planned yet.

    ``ready_at`` is the aware UTC time from which it can, or None when unknown. ``reason`` says what
    is missing, as a part of a sentence; it is empty where the message says it all.
    """

    outcome = Outcome.RETRY
    ready_at: datetime | None = None
    reason: str = ""


class TransactionOpenError(WindowOpenError):
    """Transactions that are still open may hide records of the interval.

    ``places`` names the partitions, each with its last stable offset and high watermark. ``wait``
    is how long to look again at most, from ``since``, an aware UTC time, on; after that a person
    must look at the producers.
    """

    places: tuple[str, ...] = ()
    wait: timedelta = timedelta(0)
    since: datetime | None = None


class CodeChangedError(TrainFeedError):
    """The running code or a library is not the one that the plan was made with."""


class PreprocessError(TrainFeedError):
    """A user function raised, or returned what the schema forbids."""


class EngineError(TrainFeedError):
    """A process that ran a user function was killed by somebody else."""

    outcome = Outcome.RETRY


class MemoryLimitError(TrainFeedError):
    """The work does not fit the configured memory."""


class FormatError(TrainFeedError):
    """Bytes on disk are not what their format says.

    ``path`` and ``offset_bytes`` say where, as far as it is known.
    """

    path: str | None = None
    offset_bytes: int | None = None

    def __init__(
        self, message: str, *, path: str | None = None, offset_bytes: int | None = None
    ) -> None:
        super().__init__(message)
        self.path = path
        self.offset_bytes = offset_bytes

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__

    def __str__(self) -> str:
        place = [f"in {self.path}"] if self.path is not None else []
        if self.offset_bytes is not None:
            place.append(f"at byte {self.offset_bytes}")
        return " ".join([super().__str__(), *place])


class BadMagicError(FormatError):
    """No chunk starts here."""


class ChecksumError(FormatError):
    """The stored bytes are damaged."""


class TruncatedError(FormatError):
    """The file ends before what it promised."""


class UnsupportedCodecError(FormatError):
    """This build has no decoder for a chunk's codec."""


class StorageError(TrainFeedError):
    """A file system refused or failed an operation.

    ``is_outage`` says that a server did not answer, or not as one that is well does: it may be
    back soon.
    """

    outcome = Outcome.RETRY
    is_outage: bool = False


class NotFoundError(StorageError):
    """A file or folder is not there."""

    outcome = Outcome.FAIL


class AccessDeniedError(StorageError):
    """The file system denies the operation to this user."""

    outcome = Outcome.FAIL


class QuotaExceededError(StorageError):
    """A quota or the disk is full."""

    outcome = Outcome.FAIL


class ConflictError(StorageError):
    """Another version, or another content, has the name."""

    outcome = Outcome.FAIL


class NonDeterminismError(StorageError):
    """Equal fingerprints gave other bytes."""

    outcome = Outcome.FAIL


class CommitUnknownError(StorageError):
    """Nobody can tell whether the commit took place; a retry looks before it acts."""

    outcome = Outcome.RETRY


class UnsuitableStoreError(StorageError):
    """The file system lacks what publication needs."""

    outcome = Outcome.FAIL


class IngestError(TrainFeedError):
    """The source refused or failed an operation."""

    outcome = Outcome.RETRY


class SourceUnreachableError(IngestError):
    """The source gave no answer in time, or could not be connected to."""

    outcome = Outcome.RETRY


class TopicNotFoundError(IngestError):
    """The topic, or a recorded one's folder, is not there."""

    outcome = Outcome.FAIL


class LogsMissingError(IngestError):
    """The folder of log files of an interval was not complete when the wait for it ended."""

    outcome = Outcome.FAIL


class SourceReplacedError(IngestError):
    """A topic or file is not the one that was planned."""

    outcome = Outcome.FAIL


class OffsetOutOfRangeError(IngestError):
    """Records of the range were deleted, or nobody can prove that none was."""

    outcome = Outcome.FAIL


class EmptyUnprovenError(IngestError):
    """An interval would be empty, and nothing shows that no record belongs to it."""

    outcome = Outcome.FAIL


class GateError(TrainFeedError):
    """Ledgers differ, or a quality gate of the spec is broken.

    ``report`` is small JSON for pages: counts, reasons with examples, gates; None when no gate of
    the spec is concerned.
    """

    report: Mapping[str, Any] | None = None

    def __init__(self, message: str, *, report: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.report = report


class LoaderError(TrainFeedError):
    """A reader or loader cannot go on."""


class PassEndedError(LoaderError):
    """A pass that was started by hand has no more batches; the next one has to be started."""


class ReaderEndedError(LoaderError):
    """A reader ends before the position where a pass should begin.

    ``num_samples`` is how many samples it has; batches, if it gives batches.
    """

    num_samples: int = 0

    def __init__(self, message: str, *, num_samples: int = 0) -> None:
        super().__init__(message)
        self.num_samples = num_samples


class SampleShapeError(LoaderError, ValueError):
    """A sample and the schema disagree; a ValueError too, because that is what users catch."""


class WorkerDiedError(LoaderError):
    """A worker process was killed, stopped, or has exited without a word."""

    outcome = Outcome.RETRY


class LaunchError(TrainFeedError):
    """The launcher refused or failed an operation."""

    outcome = Outcome.RETRY


class WindowIncompleteError(LaunchError):
    """Intervals of a range, of a rolling window or of a training are not published yet.

    ``missing`` has their names.
    """

    outcome = Outcome.RETRY
    missing: tuple[str, ...] = ()


class JobRejectedError(LaunchError):
    """The job specification is invalid."""

    outcome = Outcome.FAIL


class JobFailedError(LaunchError):
    """The job ran, and its own code made it fail."""

    outcome = Outcome.FAIL


class JobKilledError(LaunchError):
    """A rank of the job was killed from outside, or met an error that another try may not meet."""

    outcome = Outcome.RETRY
