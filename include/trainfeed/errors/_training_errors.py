"""Errors of loaders and of training jobs."""

from __future__ import annotations

from trainfeed.errors._root import Outcome, TrainFeedError

__all__ = [
    "JobConflictError",
    "JobFailedError",
    "JobKilledError",
    "JobRejectedError",
    "LaunchError",
    "LoaderError",
    "PassEndedError",
    "ReaderEndedError",
    "SampleShapeError",
    "TrackingError",
    "WindowIncompleteError",
    "WorkerDiedError",
]


class LoaderError(TrainFeedError):
    """A reader or loader cannot go on.

    Cause: A reader or loader is used in a way that it does not support, or its source fails.
    Remedy: Follow the message; a state that was saved before the error stays valid.
    See docs/reference/errors.md#loadererror
    """


class PassEndedError(LoaderError):
    """A pass that was begun by ``start()`` has no more batches; start the next one.

    Cause: `read_next()` was called after the last batch of a pass that `start()` began.
    Remedy: Call `reset()`, then `start()` for the next pass.
    See docs/reference/errors.md#passendederror
    """


class ReaderEndedError(LoaderError):
    """A reader ends before the position where a pass should begin.

    ``num_samples`` is the number of its samples; of its batches, if the reader gives batches.

    Cause: A state belongs to another reader, or the reader has fewer samples than when the state
        was saved.
    Remedy: Restore the state into the reader that it was saved from.
    See docs/reference/errors.md#readerendederror
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
    See docs/reference/errors.md#sampleshapeerror
    """


class WorkerDiedError(LoaderError):
    """A worker process was killed, was stopped, or exited without a message.

    Cause: A worker process was killed, mostly for lack of memory, was stopped, or ended itself.
    Remedy: Restore the last state in a new loader; give the machine more memory or use fewer
        workers if it happens again.
    See docs/reference/errors.md#workerdiederror
    """

    outcome = Outcome.RETRY


class LaunchError(TrainFeedError):
    """The launcher refused or failed an operation.

    Cause: The process of a training could not be started or watched.
    Remedy: A scheduler tries again; if the error repeats, follow the message.
    See docs/reference/errors.md#launcherror
    """

    outcome = Outcome.RETRY


class WindowIncompleteError(LaunchError):
    """Intervals of a range, of a rolling window or of a training are not published yet.

    ``missing`` has their names.

    Cause: Intervals of the range or training window are not published yet, or were never built.
    Remedy: Build the intervals that the message names, wait for them, or read the published ones
        with `missing="skip"`.
    See docs/reference/errors.md#windowincompleteerror
    """

    outcome = Outcome.RETRY
    missing: tuple[str, ...] = ()


class JobRejectedError(LaunchError):
    """The job specification is invalid.

    Cause: `train.entry` names no function, or a setting of the training is invalid.
    Remedy: Correct `train` in dataset.yaml or the module that it names; nothing was run.
    See docs/reference/errors.md#jobrejectederror
    """

    outcome = Outcome.FAIL


class JobConflictError(LaunchError):
    """Another job has the name of this one on the cluster.

    Cause: An object of the job's name is there that was made by something else, or for a job of
        another identity.
    Remedy: Look at the object that the message names, and delete it if nothing needs it; then train
        again. The object was left as it is.
    See docs/reference/errors.md#jobconflicterror
    """

    outcome = Outcome.FAIL


class JobFailedError(LaunchError):
    """The job ran, and its own code made it fail.

    Cause: `train.py` raised, ended with a status other than 0, or crashed.
    Remedy: Read the log that the message names, fix the function, then run the training again. The
        versions are untouched.
    See docs/reference/errors.md#jobfailederror
    """

    outcome = Outcome.FAIL


class JobKilledError(LaunchError):
    """A rank of the job was killed from outside, or met an error that may pass.

    Cause: A rank was killed, mostly for lack of memory or by a restart of the machine, or met an
        error that may pass.
    Remedy: A scheduler tries again; if the error repeats, give the job more memory or fewer ranks.
    See docs/reference/errors.md#jobkillederror
    """

    outcome = Outcome.RETRY


class TrackingError(TrainFeedError):
    """A tracking server refused a request, failed, or did not answer in time.

    ``code`` is the error code of the server, "" without an answer. A training never fails by this
    error: its report and its log have the message.

    Cause: The server is down, slow or out of reach, or refuses the credentials or the request.
    Remedy: Follow the message, then run the same command or task once more: it delivers the rest.
    See docs/reference/errors.md#trackingerror
    """

    outcome = Outcome.RETRY
    code: str = ""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
