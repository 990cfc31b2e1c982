"""How a kind of source is planned and read; what it says of itself is in ``SourceKind``.

A further kind implements ``SourceReader`` and ``Inputs`` in a module of its own, and has one row in
``_inputs.READERS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, Skip
from trainfeed.intervals import Interval
from trainfeed.pipeline.plans import Planned, PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import DatasetSpec

__all__ = ["Inputs", "KnownInputs", "SourceReader"]


class KnownInputs(Protocol):
    """What the planner asks to find out whether an interval is published already."""

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:
        """Return source string → planned range or file.

        Args:
            current: The published version, or None.
        """


class Inputs(KnownInputs, Protocol):
    """What the planner asks of the source of an interval, whatever its kind.

    Attributes:
        marker: Name of the file that marked the source as complete; None where none does.
    """

    @property
    def marker(self) -> str | None: ...

    def skip(self) -> Skip | None:
        """Return the decision to leave the interval out; None when it is built.

        Asked of an interval that is not published.
        """

    def without_losses(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[Mapping[str, Planned], list[dict[str, Any]]]:
        """Return what can be read of the inputs, and all gaps that were allowed.

        Args:
            current: The published version, or None.
            allow_gap: Why further loss is accepted, or None to refuse any.
        """

    def empty_because(self, inputs: Mapping[str, Planned], allow_gap: str | None) -> dict[str, str]:
        """Return per source why nothing is read of it: a function of what is planned alone.

        Args:
            inputs: What ``without_losses`` returned.
            allow_gap: As given to it.

        Returns:
            Nothing while anything is read.
        """


class SourceReader(Protocol):
    """How a kind of source is planned and read. It keeps nothing between two calls."""

    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> AbstractContextManager[Inputs]:
        """Open the source of an interval, to plan it.

        Args:
            spec: A data set with a source of this kind.
            env: Where things are.
            folder: The data set below the publication root.
            interval: The interval.

        Raises:
            IngestError: The source does not answer.
            StorageError: Its file system does not answer.
        """

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Compare the source with the plan, before any of the sources is read or adopted as read.

        A kind that compares while it reads, and always lands, has nothing to do here.

        Args:
            stage: The stage at work.
            sources: Source strings of what the task will read.

        Raises:
            SourceReplacedError: The source is not the one that was planned.
        """

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of one planned range, by ascending offset.

        What was yielded counts only once the iterator has ended without an error.

        Args:
            stage: The stage at work.
            piece: A range of its plan.

        Returns:
            Batches of ``LANDING_SCHEMA``, at least one row each; they stay valid.

        Raises:
            SourceReplacedError: The source is not the one that was planned.
            IngestError: It cannot be read now.
        """

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Environment:
        """Return an environment for a look at the first records of an interval.

        Ranges that are counted in offsets are cut by the caller; ranges of bytes cannot be, so
        a kind that is counted in bytes copies its first records.

        Args:
            spec: A data set with a source of this kind.
            interval: The interval.
            env: Where things are.
            place: An empty folder, for copies.
            limit: Records in all.
        """
