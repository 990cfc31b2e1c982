"""Epochs, states and ranks of what an adapter reads: what frameworks ask a data set for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.adapters._batches import Batches
from trainfeed.errors import ConfigError

__all__ = ["Adapted", "PassPlace", "hold_ranks"]

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PassPlace:
    """A place in what has no states of its own: so many batches of an epoch were handed over."""

    epoch: int = 0
    position: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the place as JSON values."""
        return {"version": _VERSION, "epoch": self.epoch, "batches": self.position}

    @classmethod
    def from_json(cls, value: object) -> PassPlace:
        """Read what ``to_json`` gives.

        Raises:
            ConfigError: ``value`` is something else.
        """
        if isinstance(value, Mapping) and value.keys() == {"version", "epoch", "batches"}:
            numbers = [value[name] for name in ("version", "epoch", "batches")]
            if all(type(n) is int and n >= 0 for n in numbers) and numbers[0] == _VERSION:
                return cls(numbers[1], numbers[2])
        raise ConfigError(
            "expected a state of an adapter over batches that have none of their own, with"
            f" version {_VERSION}, epoch and batches, got {value!r}"
        )


class Adapted:
    """Passes over a loader, or over whatever else yields batches.

    A loader keeps its own states. Of anything else the batches are counted, and a state is gone
    on with by reading and dropping those before it, which is exact where a pass can be repeated.

    Args:
        loader: What yields the batches.
    """

    def __init__(self, loader: Batches) -> None:
        super().__init__()
        self._loader: Any = loader
        self._keeps = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        self._standing = self._next = PassPlace()

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be that of ``epoch``; within it, a state that was loaded counts.

        Frameworks call this before every pass, also before one that goes on in the middle.

        Raises:
            ConfigError: A state of another epoch was loaded, and would be lost.
        """
        due = getattr(self._loader, "due", None) if self._keeps else self._next
        if due is not None and due.epoch == epoch:
            return
        if due is not None and due.position:
            raise ConfigError(
                f"expected the framework to go on in epoch {due.epoch}, in which a state was loaded"
                f" (position {due.position}), got set_epoch({epoch}), which would lose it; let the"
                f" framework count from {due.epoch}, or call set_epoch of the loader itself"
            )
        if hasattr(self._loader, "set_epoch"):
            self._loader.set_epoch(epoch)
        self._standing = self._next = PassPlace(epoch)

    def __len__(self) -> int:
        """How many batches a whole epoch has.

        Raises:
            TypeError: The loader does not know.
        """
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return where the batch that was handed over last ends: the loader's state, if it has one.

        JSON values. A framework that reads ahead keeps what this gave when it read.
        """
        state: dict[str, Any] = (
            self._loader.state_dict() if self._keeps else self._standing.to_json()
        )
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass start where a state was taken.

        Raises:
            ConfigError: It is no state of such a loader.
        """
        if self._keeps:
            self._loader.load_state_dict(state)
        else:
            self._standing = self._next = PassPlace.from_json(state)

    def _pass(self) -> Iterator[Any]:
        """Yield the batches of the pass that is due."""
        return iter(self._loader) if self._keeps else self._counted()

    def _counted(self) -> Iterator[Any]:
        start = self._standing = self._next
        self._next = PassPlace(start.epoch + 1)
        if hasattr(self._loader, "set_epoch"):
            self._loader.set_epoch(start.epoch)
        number = -1
        for number, batch in enumerate(self._loader):
            if number >= start.position:
                self._standing = PassPlace(start.epoch, number + 1)
                yield batch
        if number + 1 < start.position:
            raise ConfigError(
                f"expected a pass of at least {start.position} batches, because the loaded"
                f" state is at that place, got {number + 1}; load the state over the batches with"
                " which it was taken"
            )
        self._standing = PassPlace(start.epoch + 1)


def hold_ranks(loader: Batches, rank: int, world_size: int, where: str) -> None:
    """Refuse a loader whose share is not that of the process that reads it.

    Loaders that know no ranks, and a number of shares that is neither 1 nor that of the processes,
    pass: parts of a model may share the batches of a rank.

    Args:
        loader: What yields the batches.
        rank: Number of this process.
        world_size: How many processes there are.
        where: What says so, as words in a message.

    Raises:
        ConfigError: Every process would read all samples, or two of them the same share.
    """
    share: Any = getattr(loader, "share", None)
    if share is None or world_size == 1 or share.world_size not in {1, world_size}:
        return
    if share.world_size == world_size and share.rank == rank:
        return
    lost = "every process would read all samples"
    if share.world_size != 1:
        lost = "two processes would read the same share, and no process another one"
    raise ConfigError(
        f"expected a loader of rank {rank} of {world_size}, because {where} has that many"
        f" processes, got one of rank {share.rank} of {share.world_size}: {lost}; write"
        f" trainfeed.DataLoader(…, rank={rank}, world_size={world_size}), or give the adapter"
        " check_ranks=False if this is intended"
    )
