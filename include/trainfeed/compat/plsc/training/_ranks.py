"""The ranks of a training: sums, maxima and rows of all of them, over gloo.

One rank is a group without a connection: every result is its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.compat._framework import paddle
from trainfeed.config import name_rank, rank_variables
from trainfeed.errors import ConfigError, JobKilledError

__all__ = ["Ranks"]

_ENDPOINTS: Final = ("PADDLE_TRAINER_ENDPOINTS", "PADDLE_CURRENT_ENDPOINT")


@dataclass(frozen=True)
class Ranks:
    """The ranks that train together.

    Attributes:
        rank: Number of this process, from 0.
        world_size: Number of processes.
    """

    rank: int
    world_size: int

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes what all ranks have in common."""
        return self.rank == 0

    def connect(self) -> None:
        """Connect the ranks, unless there is one or they are connected.

        Raises:
            ConfigError: The ranks were not started by Paddle's launcher.
        """
        distributed = paddle().distributed
        if self.world_size == 1 or distributed.is_initialized():
            return
        if missing := sorted(set(_ENDPOINTS) - set(rank_variables(_ENDPOINTS))):
            raise ConfigError(
                f"expected the addresses of {self.world_size} ranks in the environment, got no"
                f" {' and no '.join(missing)}; nothing was trained; start the ranks by python -m"
                " paddle.distributed.launch --backend gloo --nproc_per_node N"
            )
        name_rank({"PADDLE_DISTRI_BACKEND": "gloo"})
        with self._all_there():
            distributed.init_parallel_env()

    def sum(self, values: Any) -> Any:
        """Return the sums of a tensor over the ranks; the tensor has one shape on all of them."""
        return self._reduced(values, "SUM")

    def max(self, values: Any) -> Any:
        """Return the maxima of a tensor over the ranks."""
        return self._reduced(values, "MAX")

    def counts(self, number: int) -> list[int]:
        """Return a number of each rank, in the order of the ranks."""
        if self.world_size == 1:
            return [number]
        own = paddle().zeros([self.world_size], "int64")
        own[self.rank] = number
        return [int(each) for each in self.sum(own).numpy()]

    def gather(self, rows: Any, counts: Sequence[int]) -> Any:
        """Return the rows of all ranks below each other.

        Args:
            rows: Tensor of shape ``(counts[rank], …)``.
            counts: Number of rows of each rank.
        """
        if self.world_size == 1:
            return rows
        parts = [self.broadcast(rows, source, n) for source, n in enumerate(counts) if n]
        return paddle().concat(parts)

    def broadcast(self, rows: Any, source: int, count: int) -> Any:
        """Return ``count`` rows of the rank ``source``; ``rows`` gives dtype and other sizes."""
        if self.world_size == 1:
            return rows
        given = source == self.rank
        sent = rows if given else paddle().zeros([count, *rows.shape[1:]], rows.dtype)
        with self._all_there():
            paddle().distributed.broadcast(sent, src=source)
        return sent

    def first_row(self, counts: Sequence[int]) -> int:
        """Return the row at which those of this rank begin in what ``gather`` returns."""
        return sum(counts[: self.rank])

    def shared_name(self) -> str:
        """Return 32 hexadecimal digits, drawn by rank 0."""
        drawn = uuid.uuid4().hex
        if self.world_size == 1:
            return drawn
        digits = paddle().to_tensor([int(digit, 16) for digit in drawn], dtype="int64")
        return "".join(f"{int(digit):x}" for digit in self.broadcast(digits, 0, 32).numpy())

    def wait(self) -> None:
        """Wait until all ranks have come here."""
        self.counts(0)

    def _reduced(self, values: Any, operation: str) -> Any:
        if self.world_size > 1:
            values = values.clone()
            distributed = paddle().distributed
            with self._all_there():
                distributed.all_reduce(values, op=getattr(distributed.ReduceOp, operation))
        return values

    @contextmanager
    def _all_there(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, OSError) as error:
            # gloo names its own source file, and the port of a rank, not which rank ended.
            raise JobKilledError(
                f"expected all {self.world_size} ranks to come to the same step, got a lost"
                f" connection on rank {self.rank}: {str(error).strip().splitlines()[-1]}; the"
                " checkpoints of whole passes are kept; the log of the rank that ended first says"
                " why; start all ranks again with set_checkpoint_dir(model_save_dir)"
            ) from error
