"""Errors of the sources that are read."""

from __future__ import annotations

from trainfeed.errors._root import Outcome, TrainFeedError

__all__ = [
    "EmptyUnprovenError",
    "IngestError",
    "LogsMissingError",
    "OffsetOutOfRangeError",
    "SourceMissingError",
    "SourceReplacedError",
    "SourceUnreachableError",
    "TopicNotFoundError",
]


class IngestError(TrainFeedError):
    """The source refused or failed an operation.

    Cause: A broker, or the file system of log files, refused or failed a request in a way that may
        pass.
    Remedy: A scheduler tries again; if the error repeats, check the source, then clear the task.
    See docs/reference/errors.md#ingesterror
    """

    outcome = Outcome.RETRY


class SourceUnreachableError(IngestError):
    """The source gave no answer in time, or refused the connection.

    Cause: Brokers or file system are down, or the address or port of the connection is wrong.
    Remedy: Start the source or correct the connection, then clear the task; no record was lost.
    See docs/reference/errors.md#sourceunreachableerror
    """

    outcome = Outcome.RETRY


class TopicNotFoundError(IngestError):
    """The topic, or the folder of a recorded topic, is not there.

    ``setting`` is the place of the topic in dataset.yaml; empty if it is not known.

    Cause: The name of the topic is misspelt, or the topic was never made or was deleted.
    Remedy: Create the topic, or correct its name in dataset.yaml.
    See docs/reference/errors.md#topicnotfounderror
    """

    outcome = Outcome.FAIL
    setting: str = ""


class SourceMissingError(IngestError):
    """An interval has no record of a topic, or no upload, and its specification asks for one.

    Cause: Nothing was written for the interval within `wait`; and `missing` is `fail`, or is `skip`
        without a proof that there is nothing.
    Remedy: Let the producer or the uploads catch up; `missing` in dataset.yaml decides about
        intervals that never come.
    See docs/reference/errors.md#sourcemissingerror
    """

    outcome = Outcome.FAIL


class LogsMissingError(SourceMissingError):
    """The folder of log files of an interval was not complete when the wait for it ended.

    Cause: The logs were not written within `wait`, or `source.logs.path` names another folder.
    Remedy: Have the logs written, or correct the path; `source.logs.missing` decides about
        intervals without logs.
    See docs/reference/errors.md#logsmissingerror
    """

    outcome = Outcome.FAIL


class SourceReplacedError(IngestError):
    """A topic or file differs from the planned one.

    Cause: The topic was deleted and created again, or log files changed, became shorter or went
        away after the plan.
    Remedy: Restore the source, or accept its present content with `--rebuild WHY` or `--allow-gap
        WHY`, as the message says.
    See docs/reference/errors.md#sourcereplacederror
    """

    outcome = Outcome.FAIL


class OffsetOutOfRangeError(IngestError):
    """Records of the range were deleted, or nothing proves that none were deleted.

    Cause: Retention deleted records of the interval before they were read, or the topic was created
        again.
    Remedy: Restore the records, or accept the loss with `--allow-gap WHY`, which the manifest
        records. Check `settle`, the schedule and the retention of the topic.
    See docs/reference/errors.md#offsetoutofrangeerror
    """

    outcome = Outcome.FAIL


class EmptyUnprovenError(IngestError):
    """An interval would be empty, and nothing shows that no record belongs to it.

    Cause: Both boundaries of the interval are the same offset, and no record or index entry shows
        that the interval has no records.
    Remedy: Run `trainfeed boundaries check NAME`, or publish the interval empty with `--allow-gap
        WHY`.
    See docs/reference/errors.md#emptyunprovenerror
    """

    outcome = Outcome.FAIL
