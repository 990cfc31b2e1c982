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
    │   ├── TableNotFoundError      FAIL   the catalogue has no such table
    │   ├── SourceMissingError      FAIL   records or uploads of an interval did not come in time
    │   │   └── LogsMissingError    FAIL   a folder of logs was not complete in time
    │   ├── SourceReplacedError     FAIL   topic or file differs from the plan
    │   ├── SchemaChangedError      FAIL   an id of a registry has another schema than before
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
    "SchemaChangedError",
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
    "TableNotFoundError",
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


# --- The root of all errors, and the outcomes for a scheduler


class Outcome(Enum):
    """The advice to a scheduler about a task that raised."""

    RETRY = "retry"
    FAIL = "fail"


class TrainFeedError(Exception):
    """Root of the tree. The message says what, where, what was kept, and what to do.

    Cause: One of the errors below this class.
    Remedy: Follow the end of the message; this page has more for each class.
    See docs/reference/errors.md#trainfeederror
    """

    outcome: ClassVar[Outcome] = Outcome.FAIL

    def __init_subclass__(cls, **options: Any) -> None:
        """End the docstring of a class of this module with the link to its section."""
        super().__init_subclass__(**options)
        if cls.__module__ == __name__ and cls.__doc__:
            link = f"docs/reference/errors.md#{cls.__name__.lower()}"
            cls.__doc__ = f"{cls.__doc__.rstrip()}\n    See {link}\n    "


# --- Errors of settings, specifications and intervals


class ConfigError(TrainFeedError):
    """A setting is missing or contradicts another.

    Cause: A setting, a connection, a parameter or a file that a specification names is missing or
        wrong, or two of them contradict each other.
    Remedy: Correct the setting that the message names; nothing was run. A try without a change
        fails in the same way.
    """


class RootError(ConfigError):
    """The publication root is missing, or the folder was never made a root.

    Cause: The setting of the root is misspelt, its file system is not mounted, or the folder was
        never made a root.
    Remedy: Correct the setting or mount the file system. Run `trainfeed init` only for a new root,
        or for a root of an older version, which made no mark.
    """


class SpecError(ConfigError):
    """A dataset.yaml is wrong.

    Cause: A field of dataset.yaml is unknown, missing or wrong, or two fields contradict each
        other.
    Remedy: Change the line that the message names; docs/reference/dataset.md has every field.
    """


class WindowError(ConfigError):
    """The requested interval is not a tick of the schedule, or lies outside of the schedule.

    Cause: The requested start is not a tick of the schedule, lies outside of the schedule, or is
        not a date.
    Remedy: Ask for one of the ticks that the message names, or change `start`, `end` or `schedule`.
    """


class WindowOpenError(TrainFeedError):
    """The interval cannot be planned yet.

    ``ready_at`` is the aware UTC time from which the interval can be planned, or None when unknown.
    ``reason`` names what is missing, as a part of a sentence; empty if the message is complete.
    ``until`` is the aware UTC time at which the wait for a topic or for uploads ends; None for
    other reasons.

    Cause: The interval has not ended and settled; or its folder of log files is not complete, its
        topic has no record, or it has no upload yet.
    Remedy: Wait: runs of the schedule look again by themselves. Trigger a triggered run again after
        the time that the message names.
    """

    outcome = Outcome.RETRY
    ready_at: datetime | None = None
    reason: str = ""
    until: datetime | None = None


class TransactionOpenError(WindowOpenError):
    """Transactions that are still open may hide records of the interval.

    ``places`` names the partitions, each with its last stable offset and high watermark. ``wait``
    is the longest time of looking again, counted from ``since``, an aware UTC time; after that the
    producers need attention.

    Cause: A producer has an open transaction, or died during a transaction, and later records may
        belong to the interval.
    Remedy: Wait, or find the producer with kafka-transactions.sh, and abort the transaction if the
        producer is dead.
    """

    places: tuple[str, ...] = ()
    wait: timedelta = timedelta(0)
    since: datetime | None = None


# --- Errors of formats and of file systems


class FormatError(TrainFeedError):
    """Bytes on disk are not what their format says.

    ``path`` and ``offset_bytes`` are the place, as far as known.

    Cause: A file is damaged, was cut, has another format than expected, or was written by a later
        version.
    Remedy: Restore the file or write it again; for a file of a version, build the next generation
        with `--rebuild`. `trainfeed file repair` keeps the whole parts of a record file.
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
    """No chunk starts here.

    Cause: The file has another format, or its bytes are damaged where a chunk or header should
        begin.
    Remedy: Name the right file or format; restore a damaged file.
    """


class ChecksumError(FormatError):
    """The stored bytes are damaged.

    Cause: A disk, a copy or a program changed the bytes after they were written.
    Remedy: Restore the file, or make it again as the message says; readers give no samples of
        damaged bytes.
    """


class TruncatedError(FormatError):
    """The file ends before its announced end.

    Cause: A writer was killed, a copy is not complete, or a disk was full.
    Remedy: Copy or write the file again.
    """


class UnsupportedCodecError(FormatError):
    """This build has no decoder for a chunk's codec.

    Cause: The file was compressed with a codec that this version of trainfeed does not have.
    Remedy: Read the file with the version that wrote it, or write it again with one of the codecs
        of docs/reference/formats.md.
    """


class StorageError(TrainFeedError):
    """A file system refused or failed an operation.

    ``is_outage`` is set if a server did not answer, or answered that it cannot serve: the server
    may be back soon.

    Cause: The file system did not answer, or an operation failed in a way that may pass.
    Remedy: A scheduler tries again; if the error repeats, check the file system, then clear the
        task.
    """

    outcome = Outcome.RETRY
    is_outage: bool = False


class NotFoundError(StorageError):
    """A file or folder is not there.

    Cause: A name is misspelt, or the file was never made, was removed, or lies below another root.
    Remedy: Correct the name, or make the file as the message says.
    """

    outcome = Outcome.FAIL


class AccessDeniedError(StorageError):
    """The file system denies the operation to this user.

    Cause: The account that runs the process may not read or write the path.
    Remedy: Give the account the right, or run as the account that has it.
    """

    outcome = Outcome.FAIL


class QuotaExceededError(StorageError):
    """A quota or the disk is full.

    Cause: The disk or a quota is full, or a build would not fit, going by the newest version.
    Remedy: Make room, then run the build again: kept files are not made twice.
    """

    outcome = Outcome.FAIL


class ConflictError(StorageError):
    """Another version, or another content, has the name.

    Cause: The interval is published from other code, specification or sources, or a name is taken.
    Remedy: Keep the published version with `--outdated keep`, or build the next generation with
        `--outdated rebuild` or `--rebuild WHY`, as the message shows.
    """

    outcome = Outcome.FAIL


class WithdrawnError(ConflictError):
    """A person withdrew this version, or one with the same content.

    Cause: Somebody found the content wrong and withdrew it, for the reason in the message; a build
        would publish the same again, or a version was asked for by its number.
    Remedy: Correct the cause and build. If the content is right after all, `trainfeed restore`
        gives it back, or `trainfeed build --rebuild WHY` publishes it again.
    """


class RetiredError(ConflictError):
    """Retention or a person retired this interval, so that no build makes it again by accident.

    Cause: All versions of the interval were removed for good, as the message says, and a build
        without a reason was asked for it.
    Remedy: Nothing, or `trainfeed build --rebuild WHY`, which makes it again as long as the source
        has its records.
    """


class SnapshotError(ConflictError):
    """A folder cannot be removed, because a snapshot of it is kept.

    Cause: Somebody made a snapshot of this very folder (CephFS: `mkdir FOLDER/.snap/NAME`); the
        file system keeps the folder for it, although its files are gone from the present state.
    Remedy: Remove the snapshot that the message names (`rmdir FOLDER/.snap/NAME`), then run the
        same command again.
    """


class FileReplacedError(StorageError):
    """A file, or a set of shards, was replaced while it was read.

    Cause: Another process put a new file at the path: a second run of the same build, or a
        conversion into the same folder.
    Remedy: Read again. A stage and a scheduler do that by themselves; a reader in your own program
        must be opened again.
    """

    outcome = Outcome.RETRY


class NonDeterminismError(StorageError):
    """Equal fingerprints gave other bytes.

    Cause: The function depends on time, random numbers, the order of a set, or on anything but
        record and lookups; or a package that it uses gives other results.
    Remedy: Make the function pure, then build the interval again with `--rebuild WHY`.
    """

    outcome = Outcome.FAIL


class CommitUnknownError(StorageError):
    """The outcome of a commit is unknown; a retry first looks for the version.

    Cause: The file system did not confirm the rename that publishes a version.
    Remedy: Run the task again: the task first looks for the version. Do not rename or remove files
        by hand.
    """

    outcome = Outcome.RETRY


class UnsuitableStoreError(StorageError):
    """The file system lacks an operation that publication needs.

    Cause: The root lies on a file system without exclusive rename of folders, or a quota border
        lies inside the root.
    Remedy: Choose a root on CephFS or on another POSIX file system that passes the probe.
    """

    outcome = Outcome.FAIL


# --- Errors of the sources that are read


class IngestError(TrainFeedError):
    """The source refused or failed an operation.

    Cause: A broker, or the file system of log files, refused or failed a request in a way that may
        pass.
    Remedy: A scheduler tries again; if the error repeats, check the source, then clear the task.
    """

    outcome = Outcome.RETRY


class SourceUnreachableError(IngestError):
    """The source gave no answer in time, or refused the connection.

    Cause: Brokers or file system are down, or the address or port of the connection is wrong.
    Remedy: Start the source or correct the connection, then clear the task; no record was lost.
    """

    outcome = Outcome.RETRY


class TopicNotFoundError(IngestError):
    """The topic, or the folder of a recorded topic, is not there.

    ``setting`` is the place of the topic in dataset.yaml; empty if it is not known.

    Cause: The name of the topic is misspelt, or the topic was never made or was deleted.
    Remedy: Create the topic, or correct its name in dataset.yaml.
    """

    outcome = Outcome.FAIL
    setting: str = ""


class TableNotFoundError(IngestError):
    """A catalogue has no table of the name.

    Cause: The name in `source.iceberg.table` is wrong, the connection names another catalogue or
        warehouse, or the table was dropped.
    Remedy: Correct the name or the connection, or bring the table back. Published versions stay.
    """

    outcome = Outcome.FAIL


class SourceMissingError(IngestError):
    """An interval has no record of a topic, or no upload, and its specification asks for one.

    Cause: Nothing was written for the interval within `wait`; and `missing` is `fail`, or is `skip`
        without a proof that there is nothing.
    Remedy: Let the producer or the uploads catch up; `missing` in dataset.yaml decides about
        intervals that never come.
    """

    outcome = Outcome.FAIL


class LogsMissingError(SourceMissingError):
    """The folder of log files of an interval was not complete when the wait for it ended.

    Cause: The logs were not written within `wait`, or `source.logs.path` names another folder.
    Remedy: Have the logs written, or correct the path; `source.logs.missing` decides about
        intervals without logs.
    """

    outcome = Outcome.FAIL


class SourceReplacedError(IngestError):
    """A topic or file differs from the planned one.

    Cause: The topic was deleted and created again, or log files changed, became shorter or went
        away after the plan.
    Remedy: Restore the source, or accept its present content with `--rebuild WHY` or `--allow-gap
        WHY`, as the message says.
    """

    outcome = Outcome.FAIL


class SchemaChangedError(IngestError):
    """An id of a schema registry has another schema than when records of it landed first.

    Cause: The registry was built anew, without the ids that it had, or its connection names another
        registry now.
    Remedy: Bring the old registry back, or give the new one a connection of its own and name that
        in dataset.yaml. Landed records and published versions stay.
    """

    outcome = Outcome.FAIL


class OffsetOutOfRangeError(IngestError):
    """Records of the range were deleted, or nothing proves that none were deleted.

    Cause: Retention deleted records of the interval before they were read, or the topic was created
        again.
    Remedy: Restore the records, or accept the loss with `--allow-gap WHY`, which the manifest
        records. Check `settle`, the schedule and the retention of the topic.
    """

    outcome = Outcome.FAIL


class EmptyUnprovenError(IngestError):
    """An interval would be empty, and nothing shows that no record belongs to it.

    Cause: Both boundaries of the interval are the same offset, and no record or index entry shows
        that the interval has no records.
    Remedy: Run `trainfeed boundaries check NAME`, or publish the interval empty with `--allow-gap
        WHY`.
    """

    outcome = Outcome.FAIL


# --- Errors of the work itself: code, functions, memory, gates


class CodeChangedError(TrainFeedError):
    """The running code or a library differs from that of the plan.

    Cause: A module of the data set, a lookup, trainfeed or a library changed after the interval was
        planned.
    Remedy: Build the interval again; in Airflow, trigger a new run. Landing files are kept.
    """


class PreprocessError(TrainFeedError):
    """A user function raised, or returned a value that the schema forbids.

    Cause: The function raised, ended its process, took too long, or returned a value that the
        schema does not allow.
    Remedy: Fix the function at the record that the message shows, or raise `Reject` for records
        that are broken; then build the interval again.
    """


class EngineError(TrainFeedError):
    """A process that ran a user function was killed from outside, or Spark failed.

    Cause: The kernel ended a worker process for lack of memory, or a person or program killed it.
        Of Spark: an executor, the driver or the cluster was lost.
    Remedy: A scheduler tries again. If the error repeats, give the machine or container more
        memory, or lower `resources.processes` or `resources.memory_bytes`. Of Spark: the message
        has what Spark said, the log of the task all of it.
    """

    outcome = Outcome.RETRY


class MemoryLimitError(TrainFeedError):
    """The work does not fit the configured memory.

    Cause: A sample, a lookup, a function, a schema or a buffer takes more memory than the setting
        allows.
    Remedy: Raise the setting that the message names, or make the named sample, lookup or schema
        smaller.
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


# --- Errors of loaders and of training jobs


class LoaderError(TrainFeedError):
    """A reader or loader cannot go on.

    Cause: A reader or loader is used in a way that it does not support, or its source fails.
    Remedy: Follow the message; a state that was saved before the error stays valid.
    """


class PassEndedError(LoaderError):
    """A pass that was begun by ``start()`` has no more batches; start the next one.

    Cause: `read_next()` was called after the last batch of a pass that `start()` began.
    Remedy: Call `reset()`, then `start()` for the next pass.
    """


class ReaderEndedError(LoaderError):
    """A reader ends before the position where a pass should begin.

    ``num_samples`` is the number of its samples; of its batches, if the reader gives batches.

    Cause: A state belongs to another reader, or the reader has fewer samples than when the state
        was saved.
    Remedy: Restore the state into the reader that it was saved from.
    """

    num_samples: int = 0

    def __init__(self, message: str, *, num_samples: int = 0) -> None:
        super().__init__(message)
        self.num_samples = num_samples


class SampleShapeError(LoaderError, ValueError):
    """A sample and the schema disagree; also a ValueError, which programs usually catch.

    Cause: A field is missing, is not in the schema, or has another shape or dtype than the schema
        says.
    Remedy: Change the sample or the schema at the field that the message names.
    """


class WorkerDiedError(LoaderError):
    """A worker process was killed, was stopped, or exited without a message.

    Cause: A worker process was killed, mostly for lack of memory, was stopped, or ended itself.
    Remedy: Restore the last state in a new loader; give the machine more memory or use fewer
        workers if it happens again.
    """

    outcome = Outcome.RETRY


class LaunchError(TrainFeedError):
    """The launcher refused or failed an operation.

    Cause: The process of a training could not be started or watched.
    Remedy: A scheduler tries again; if the error repeats, follow the message.
    """

    outcome = Outcome.RETRY


class WindowIncompleteError(LaunchError):
    """Intervals of a range, of a rolling window or of a training are not published yet.

    ``missing`` has their names.

    Cause: Intervals of the range or training window are not published yet, or were never built.
    Remedy: Build the intervals that the message names, wait for them, or read the published ones
        with `missing="skip"`.
    """

    outcome = Outcome.RETRY
    missing: tuple[str, ...] = ()


class JobRejectedError(LaunchError):
    """The job specification is invalid.

    Cause: `train.entry` names no function, or a setting of the training is invalid.
    Remedy: Correct `train` in dataset.yaml or the module that it names; nothing was run.
    """

    outcome = Outcome.FAIL


class JobConflictError(LaunchError):
    """Another job has the name of this one on the cluster.

    Cause: An object of the job's name is there that was made by something else, or for a job of
        another identity.
    Remedy: Look at the object that the message names, and delete it if nothing needs it; then train
        again. The object was left as it is.
    """

    outcome = Outcome.FAIL


class JobFailedError(LaunchError):
    """The job ran, and its own code made it fail.

    Cause: `train.py` raised, ended with a status other than 0, or crashed.
    Remedy: Read the log that the message names, fix the function, then run the training again. The
        versions are untouched.
    """

    outcome = Outcome.FAIL


class JobKilledError(LaunchError):
    """A rank of the job was killed from outside, or met an error that may pass.

    Cause: A rank was killed, mostly for lack of memory or by a restart of the machine, or met an
        error that may pass.
    Remedy: A scheduler tries again; if the error repeats, give the job more memory or fewer ranks.
    """

    outcome = Outcome.RETRY


class TrackingError(TrainFeedError):
    """A tracking server refused a request, failed, or did not answer in time.

    ``code`` is the error code of the server, "" without an answer. A training never fails by this
    error: its report and its log have the message.

    Cause: The server is down, slow or out of reach, or refuses the credentials or the request.
    Remedy: Follow the message, then run the same command or task once more: it delivers the rest.
    """

    outcome = Outcome.RETRY
    code: str = ""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


# --- Errors of predictions


class PredictionError(TrainFeedError):
    """A prediction that was asked for could not be made.

    Cause: A record is broken or not wanted, or the function of `train.model.predict` raised, or
        returned something that is no prediction.
    Remedy: Follow the message: correct the record, or the function; `--skip-bad` accepts records
        without a prediction.
    """


class PredictionTimeError(PredictionError):
    """A prediction took longer than its time limit; its process was ended.

    Cause: The preprocessing function or the function that predicts does not return in time.
    Remedy: Correct the function at the line that the message shows, send fewer records at once, or
        raise the time limit.
    """

    outcome = Outcome.RETRY


class SkewError(PredictionError):
    """The code that would make samples today is not that of the samples the model was trained on.

    Cause: The preprocessing code, a lookup, the schema or the named function has changed since the
        data of the model were built; predictions would be wrong without any other sign.
    Remedy: Check out the code of the model, or train and promote a model on data of today's code;
        `--accept-other-code` predicts nevertheless, and every prediction says so.
    """


# --- Errors of the clients of trainfeed's servers


class ServiceError(TrainFeedError):
    """A server of trainfeed failed a request, or gave no answer of its protocol.

    Cause: The server met an error of its own, or another program answers at the address.
    Remedy: Look in the log of the server for the request that the message names. A later try may
        succeed.
    """

    outcome = Outcome.RETRY


class ServiceUnreachableError(ServiceError):
    """A server gave no answer within the time that the client waits.

    Cause: The server does not run, the address is wrong, the certificate is not trusted, or the
        server stays overloaded.
    Remedy: Start the server or correct the address that the message names, then try again; requests
        that the server answered before are done.
    """


class ServiceDeniedError(ServiceError):
    """The server does not let this client do what was asked for.

    Cause: The token is missing, unknown or expired, or its scopes do not include the route.
    Remedy: Make a token with `trainfeed token new`, or name the file of a token with
        `TRAINFEED_TOKEN_FILE`.
    """

    outcome = Outcome.FAIL


class ServiceRefusedError(ServiceError):
    """The server understood the request and refused it; the same request fails again.

    ``kind`` is the name that the server gives to the error.

    Cause: The request is larger than the server allows, names something that is not there, or
        contradicts what the server serves.
    Remedy: Follow the message, which has the words of the server; nothing was changed.
    """

    outcome = Outcome.FAIL
    kind: str = ""
