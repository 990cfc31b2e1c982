"""Epochs, states and ranks of adapted loaders: the methods that frameworks call."""

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
    """A place in an iterable without states: the epoch, and the number of its batches so far."""

    epoch: int = 0
    position: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the place as JSON values."""
        return {"version": _VERSION, "epoch": self.epoch, "batches": self.position}

    @classmethod
    def from_json(cls, value: object) -> PassPlace:
        """Return the place that ``to_json`` gave as JSON values.

        Raises:
            ConfigError: ``value`` is not such a place.
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
    """Passes over a loader, or over another iterable of batches.

    A loader has its own states. For any other iterable the batches are counted; restoring a state
    reads and drops the batches before it, which is exact if every pass gives the same batches.

    Args:
        loader: The loader, or another iterable of batches.
    """

    def __init__(self, loader: Batches) -> None:
        super().__init__()
        self._loader: Any = loader
        self._keeps = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        self._standing = self._next = PassPlace()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; a state that was loaded in this epoch stays valid.

        Frameworks call this method before every pass, also before a resumed one.

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
        """Return how many batches a whole epoch has.

        Raises:
            TypeError: The loader does not know.
        """
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last batch that was handed over, as JSON values.

        The state is that of the loader, if it has states. A framework that reads ahead must keep
        the state of the moment at which it read a batch.
        """
        state: dict[str, Any] = (
            self._loader.state_dict() if self._keeps else self._standing.to_json()
        )
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass start at a state.

        Raises:
            ConfigError: The value is not a state of such a loader.
        """
        if self._keeps:
            self._loader.load_state_dict(state)
        else:
            self._standing = self._next = PassPlace.from_json(state)

    def _pass(self) -> Iterator[Any]:
        """Yield the batches of the next pass."""
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
                f"expected a pass of at least {start.position} batches, because a state was taken"
                f" there, got {number + 1}; load it where the same batches are read"
            )
        self._standing = PassPlace(start.epoch + 1)


def hold_ranks(loader: Batches, rank: int, world_size: int, where: str) -> None:
    """Refuse a loader whose rank is not that of the process that reads it.

    Loaders without ranks are accepted. A world size that is neither 1 nor the number of processes
    is accepted too: several processes with parts of one model may read the batches of one rank.

    Args:
        loader: The loader, or another iterable of batches.
        rank: Number of this process.
        world_size: Number of processes.
        where: The framework that states these numbers, for the message.

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
        " check_ranks=False where it is meant so"
    )
