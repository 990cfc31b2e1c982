"""How ranks add up their gradients: over pipes, through rank 0, in the order of the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

__all__ = ["Exchange", "RankLostError"]


class RankLostError(Exception):
    """Another rank is gone; all end, and start again from the last checkpoint."""


@dataclass(frozen=True)
class Exchange:
    """One rank's end of the pipes. Every call waits for all ranks, which call the same.

    Attributes:
        rank: Number of this rank.
        world_size: Number of ranks.
        pipes: On rank 0 the pipes to ranks 1, 2, …; on the others the pipe to rank 0.
    """

    rank: int
    world_size: int
    pipes: Sequence[Connection]

    def add_up(self, vector: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of all ranks' vectors, on every rank; shape ``(n,)``.

        Raises:
            RankLostError: A rank is gone.
        """
        with _naming_the_lost():
            if self.rank:
                (pipe,) = self.pipes
                pipe.send_bytes(vector.data)
                total = np.empty_like(vector)
                pipe.recv_bytes_into(total.data.cast("B"))
                return total
            total = vector.copy()
            part = np.empty_like(vector)
            for pipe in self.pipes:
                pipe.recv_bytes_into(part.data.cast("B"))
                total += part
            for pipe in self.pipes:
                pipe.send_bytes(total.data)
            return total

    def collect(self, data: bytes) -> list[bytes]:
        """Return what each rank gave, in their order; on rank 0 alone, nothing on the others.

        Raises:
            RankLostError: A rank is gone.
        """
        with _naming_the_lost():
            if self.rank:
                self.pipes[0].send_bytes(data)
                return []
            return [data, *(pipe.recv_bytes() for pipe in self.pipes)]


@contextmanager
def _naming_the_lost() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise RankLostError(
            "a rank is gone; start all again, they go on from the last checkpoint"
        ) from error
