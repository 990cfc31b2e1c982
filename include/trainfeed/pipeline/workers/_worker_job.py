"""The protocol of a job for a worker process, and the worker's state between jobs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from trainfeed.pipeline.workers._worker_protocol import WorkerPlace

__all__ = ["Desk", "Job"]

_Result_co = TypeVar("_Result_co", covariant=True)


@dataclass
class Desk:
    """The state of a worker that a job uses, kept from one job to the next.

    Attributes:
        place: Shared memory in which the worker records its position.
        on_piece: Called with the number of every range that is done.
        functions: The function of the last job, by everything that determines it.
    """

    place: WorkerPlace
    on_piece: Callable[[int], object]
    functions: dict[Hashable, object] = field(default_factory=dict)


class Job(Protocol[_Result_co]):
    """A piece of work that is sent to a worker by pickle."""

    @property
    def label(self) -> str:
        """Name of the job in logs."""

    def run(self, desk: Desk) -> _Result_co:
        """Do the work and return the result.

        Raises:
            TrainFeedError: The parent raises it as its own.
        """
