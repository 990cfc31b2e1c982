"""The errors of trainfeed, and what a scheduler should do about each.

::

    TrainFeedError
    ├── ConfigError                 FAIL   a setting is missing or contradicts another
    │   ├── RootError               FAIL   the publication root is missing, or is not made yet
    │   ├── SpecError               FAIL   a dataset.yaml is wrong; the message names the line
    │   └── WindowError             FAIL   the interval is not a tick of the schedule
    ├── WindowOpenError             RETRY  the interval has not settled yet; names the time
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
    │   │   ├── RetiredError        FAIL   the interval is retired, and no reason was given
    │   │   ├── SnapshotError       FAIL   a snapshot of a folder keeps it from being removed
    │   │   └── WithdrawnError      FAIL   a person withdrew the version, or the same content
    │   ├── FileReplacedError       RETRY  another file took the path while it was read
    │   ├── NonDeterminismError     FAIL   equal fingerprint, other bytes: impure code
    │   ├── CommitUnknownError      RETRY  it is unknown whether the commit took place
    │   └── UnsuitableStoreError    FAIL   the file system cannot hold versions (start-up probe)
    ├── IngestError                 RETRY  the source refused or failed an operation
    │   ├── SourceUnreachableError  RETRY  no answer in time, or no connection
    │   ├── TopicNotFoundError      FAIL
    │   ├── SourceMissingError      FAIL   records or uploads of an interval did not come in time
    │   │   └── LogsMissingError    FAIL   a folder of logs was not complete in time
    │   ├── SourceReplacedError     FAIL   topic or file differs from the plan
    │   ├── OffsetOutOfRangeError   FAIL   retention deleted records; a person must decide
    │   └── EmptyUnprovenError      FAIL   nothing shows that the interval has no records
    ├── GateError                   FAIL   ledgers differ, or a quality gate of the spec is broken
    ├── PredictionError             FAIL   a prediction that was asked for could not be made
    │   ├── PredictionTimeError     RETRY  a prediction took longer than its time limit
    │   └── SkewError               FAIL   preprocessing differs from that of the model's data
    ├── LoaderError                 FAIL
    │   ├── PassEndedError          FAIL   a pass that is read by hand has no more batches
    │   ├── ReaderEndedError        FAIL   a reader ends before the position of a state
    │   ├── SampleShapeError        FAIL   samples and schema disagree; also a ValueError
    │   └── WorkerDiedError         RETRY  a worker process was killed, stopped, or has exited
    ├── TrackingError               RETRY  a tracking server refused, failed or did not answer
    ├── LaunchError                 RETRY  the launcher refused or failed an operation
    │   ├── WindowIncompleteError   RETRY  intervals of the asked window are not published yet
    │   ├── JobConflictError        FAIL   another job has the name on the cluster
    │   ├── JobRejectedError        FAIL   the job specification is invalid
    │   ├── JobFailedError          FAIL   the job ran and failed by its own code
    │   └── JobKilledError          RETRY  a rank was killed, or met an error that may pass
    └── ServiceError                RETRY  a server of trainfeed failed a request
        ├── ServiceUnreachableError RETRY  no answer within the time that the client waits
        ├── ServiceDeniedError      FAIL   the token is missing, unknown, expired or too weak
        └── ServiceRefusedError     FAIL   the request was understood and refused

``outcome`` is policy for a scheduler; trainfeed itself never acts on it.
"""

from __future__ import annotations

from trainfeed.errors.tree import (
    AccessDeniedError,
    BadMagicError,
    ChecksumError,
    CodeChangedError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    EmptyUnprovenError,
    EngineError,
    FileReplacedError,
    FormatError,
    GateError,
    IngestError,
    JobConflictError,
    JobFailedError,
    JobKilledError,
    JobRejectedError,
    LaunchError,
    LoaderError,
    LogsMissingError,
    MemoryLimitError,
    NonDeterminismError,
    NotFoundError,
    OffsetOutOfRangeError,
    Outcome,
    PassEndedError,
    PredictionError,
    PredictionTimeError,
    PreprocessError,
    QuotaExceededError,
    ReaderEndedError,
    RetiredError,
    RootError,
    SampleShapeError,
    ServiceDeniedError,
    ServiceError,
    ServiceRefusedError,
    ServiceUnreachableError,
    SkewError,
    SnapshotError,
    SourceMissingError,
    SourceReplacedError,
    SourceUnreachableError,
    SpecError,
    StorageError,
    TopicNotFoundError,
    TrackingError,
    TrainFeedError,
    TransactionOpenError,
    TruncatedError,
    UnsuitableStoreError,
    UnsupportedCodecError,
    WindowError,
    WindowIncompleteError,
    WindowOpenError,
    WithdrawnError,
    WorkerDiedError,
)

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
    "FileReplacedError",
    "FormatError",
    "GateError",
    "IngestError",
    "JobConflictError",
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
    "PredictionError",
    "PredictionTimeError",
    "PreprocessError",
    "QuotaExceededError",
    "ReaderEndedError",
    "RetiredError",
    "RootError",
    "SampleShapeError",
    "ServiceDeniedError",
    "ServiceError",
    "ServiceRefusedError",
    "ServiceUnreachableError",
    "SkewError",
    "SnapshotError",
    "SourceMissingError",
    "SourceReplacedError",
    "SourceUnreachableError",
    "SpecError",
    "StorageError",
    "TopicNotFoundError",
    "TrackingError",
    "TrainFeedError",
    "TransactionOpenError",
    "TruncatedError",
    "UnsuitableStoreError",
    "UnsupportedCodecError",
    "WindowError",
    "WindowIncompleteError",
    "WindowOpenError",
    "WithdrawnError",
    "WorkerDiedError",
]

# Logs, tracebacks and pickles then name the room, not a private module in it.
for _name in __all__:
    globals()[_name].__module__ = __name__
