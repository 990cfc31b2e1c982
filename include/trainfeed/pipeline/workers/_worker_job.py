"""What a worker process is given to do, and what it has at hand while it does it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from trainfeed.pipeline.workers._worker_protocol import WorkerPlace

__all__ = ["Desk", "Job"]

_Result_co = TypeVar("_Result_co", covariant=True)


@dataclass
class Desk:
    """What a worker has at hand, from one job to the next.

    Attributes:
        place: Where it says where it is.
        on_piece: Called with the number of every range that is done.
        functions: The function of the last job, by what it depends on.
    """

    place: WorkerPlace
    on_piece: Callable[[int], object]
    functions: dict[Hashable, object] = field(default_factory=dict)


class Job(Protocol[_Result_co]):
    """A piece of work that travels to a worker by pickle."""

    @property
    def label(self) -> str:
        """What is said of it in logs."""

    def run(self, desk: Desk) -> _Result_co:
        """Do it, and return what was made.

        Raises:
            TrainFeedError: The parent raises it as its own.
        """
