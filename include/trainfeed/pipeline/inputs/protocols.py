"""The protocols by which a kind of source is planned and read; settings are a ``SourceKind``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.pipeline.plans import Planned, PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder, Manifest, Skip


class KnownInputs(Protocol):
    """The inputs from which the planner finds out whether an interval is already published."""

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:
        """Return source string → planned range or file.

        Args:
            current: The published version, or None.
        """


class Inputs(KnownInputs, Protocol):
    """The inputs of an interval as the planner uses them, for any kind of source.

    Attributes:
        marker: Name of the file that marked the source as complete; None if there is no such file.
        passed_over: Name → reason of every entry of the source that is not read; empty for a source
            that has no such entries.
    """

    @property
    def marker(self) -> str | None: ...

    @property
    def passed_over(self) -> Mapping[str, str]: ...

    def skip(self) -> Skip | None:
        """Return the decision to skip the interval, or None if it is built.

        The planner calls this only for an interval that is not published.
        """

    def without_losses(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[Mapping[str, Planned], list[dict[str, Any]]]:
        """Return the inputs that can still be read, and all gaps that were allowed.

        Args:
            current: The published version, or None.
            allow_gap: The reason given for accepting further losses, or None to refuse them.
        """

    def confirm(self) -> None:
        """Make sure, once the plan is written, that what it was made from is still there.

        Raises:
            ConflictError: It was decided again, otherwise.
            StorageError: The publication root refused or failed.
        """

    def empty_because(self, inputs: Mapping[str, Planned], allow_gap: str | None) -> dict[str, str]:
        """Return, by source, why nothing is read of it: a function of the planned inputs alone.

        Args:
            inputs: The inputs that ``without_losses`` returned.
            allow_gap: The same reason that ``without_losses`` got.

        Returns:
            An empty mapping if any source has records to read.
        """


class Head(NamedTuple):
    """The first records of an interval.

    Attributes:
        env: An environment in which they are the whole interval, or can be cut to it.
        passed_over: Name → reason of every entry of the source that is not read.
    """

    env: Environment
    passed_over: Mapping[str, str] = MappingProxyType({})


class SourceReader(Protocol):
    """Plans and reads a kind of source. A reader has no state between two calls."""

    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> AbstractContextManager[Inputs]:
        """Open the source of an interval, to plan it.

        Args:
            spec: A data set with a source of this kind.
            env: Folders and connections.
            folder: The data set below the publication root.
            interval: The interval.

        Raises:
            IngestError: The source does not answer.
            StorageError: The file system of the source does not answer.
        """

    def check_names(self, stage: Stage, pieces: Iterable[PlannedRange]) -> None:
        """Compare the names that the source lists with the plan: none came or went since.

        Called once in a build, before ranges are read. A kind whose plan says all that can be read,
        as one of offsets, does nothing here.

        Args:
            stage: The stage at work.
            pieces: All ranges of the source. If all have landed, the source need not be asked.

        Raises:
            SourceReplacedError: Names were added or are gone.
        """

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Compare with the plan what a task will read, before it reads any of it.

        A kind that always lands, and compares while it reads, does nothing here.

        Args:
            stage: The stage at work.
            sources: Source strings of the ranges that the task will read.

        Raises:
            SourceReplacedError: The source is not the one that was planned.
        """

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of one planned range, by ascending offset.

        The batches are valid only after the iterator has ended without an error.

        Args:
            stage: The stage at work.
            piece: A range of the plan.

        Returns:
            Batches of ``LANDING_SCHEMA``, at least one row each; they stay valid.

        Raises:
            SourceReplacedError: The source is not the one that was planned.
            IngestError: The source cannot be read now.
        """

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Head:
        """Return an environment for a look at the first records of an interval.

        The caller cuts ranges of offsets. Ranges of bytes cannot be cut to a number of records,
        so a kind that is counted in bytes copies its first records to ``place``.

        Args:
            spec: A data set with a source of this kind.
            interval: The interval.
            env: Folders and connections.
            place: An empty folder, for copies.
            limit: Number of records in all.
        """
