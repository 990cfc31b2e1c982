"""The input of adapters, and epochs, states and ranks of adapted loaders."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.samples import Schema, absent_rows

# --- The input of adapters, and the code that they share

Batch: TypeAlias = Mapping[str, NDArray[Any]]


class Batches(Protocol):
    """An iterable of batches; every ``iter`` starts a new pass."""

    def __iter__(self) -> Iterator[Batch]:
        """Start a pass."""


def framework(name: str) -> Any:
    """Import a framework.

    Raises:
        ConfigError: The framework is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The framework is installed, but one of its own imports is missing: that error says more.
        if error.name != name.partition(".")[0]:
            raise
        raise ConfigError(
            f"trainfeed.adapters.{error.name} needs the package {error.name}, which is not"
            " installed here; install the package in the same environment"
        ) from None


def schema_of(loader: Batches, schema: Schema | None) -> Schema:
    """Return ``schema``, or the schema of the loader.

    Raises:
        ConfigError: Neither exists, or the data sets of a mixture have different schemas.
    """
    found = {schema} if schema is not None else _schemas(loader)
    if len(found) != 1:
        raise ConfigError(
            f"expected a loader over one schema, got {type(loader).__name__} with {len(found)};"
            " pass schema=Schema((Field(…), …))"
        )
    return found.pop()


def _schemas(loader: Batches) -> set[Schema]:
    """Return the schemas of a loader, its data set, or the data sets of its mixture."""
    dataset = getattr(loader, "dataset", loader)
    parts = [getattr(part, "schema", None) for part in getattr(dataset, "datasets", [dataset])]
    return {part for part in parts if isinstance(part, Schema)} if None not in parts else set()


def marks_padding(loader: Batches) -> bool:
    """Return whether batches of a loader may have rows that only fill them."""
    return getattr(loader, "tail", None) == "pad"


def converted(batch: Any, tensor: Callable[[str, NDArray[Any]], Any], *, marks: bool) -> Any:
    """Return a batch with ``tensor(name, array)`` in place of each of its arrays.

    A mapping becomes a dict. The column ``<name>_present`` follows an optional field, and the
    column ``valid`` is added at the end if rows may only fill the batch. A list or tuple, from
    loaders over generators, becomes a list; its arrays have the name ``""``.

    Raises:
        SampleShapeError: A field has the name of such a column, or a value is not an array.
    """
    if isinstance(batch, Mapping):
        return {name: tensor(name, values) for name, values in columns_of(batch, marks=marks)}
    if isinstance(batch, list | tuple):
        return [converted(part, tensor, marks=False) for part in batch]
    if isinstance(batch, np.ndarray):
        return tensor("", batch)
    raise SampleShapeError(
        "expected batches that are mappings from name to array, or lists of arrays, got"
        f" {type(batch).__name__}; give the adapter a loader, or a generator of such batches"
    )


def columns_of(batch: Any, *, marks: bool) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield name and array of the columns of a mapping, and of the columns that adapters add.

    Raises:
        SampleShapeError: A field has the name of an added column.
    """
    for name, values in batch.items():
        if not isinstance(values, np.ma.MaskedArray):
            yield name, values
            continue
        yield name, values.data
        yield _free(f"{name}_present", batch), np.logical_not(absent_rows(values))
    if marks:
        yield _free("valid", batch), batch.valid


def named(batch: Any, schema: Schema) -> Batch:
    """Return a batch as a mapping; the arrays of a list get the names of the schema in order.

    Raises:
        SampleShapeError: The numbers of arrays and names differ, or the batch has another type.
    """
    if isinstance(batch, Mapping):
        return batch
    if isinstance(batch, list | tuple) and len(batch) == len(schema.names):
        return dict(zip(schema.names, batch, strict=True))
    got = f"{len(batch)} of them" if isinstance(batch, list | tuple) else type(batch).__name__
    raise SampleShapeError(
        f"expected a batch by name, or one array for each of {list(schema.names)}, got {got}"
    )


def _free(name: str, batch: Batch) -> str:
    if name in batch:
        raise SampleShapeError(
            f"field {name!r} has the name of a column that the adapter adds; rename the field"
        )
    return name


def dense(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that frameworks can use without a copy: itself, or a copy if necessary.

    Tensors must be writeable, aligned and contiguous. Columns of packed records are not
    contiguous, but numpy says that they are if there is a single row, so strides are checked too.
    """
    flags = values.flags
    # Frameworks count strides in items, and refuse or copy arrays that are read-only, unaligned or
    # not contiguous.
    whole = all(stride % values.itemsize == 0 for stride in values.strides)
    if whole and flags.c_contiguous and flags.aligned and flags.writeable:
        return values
    return values.copy()


# --- Epochs, states and ranks of adapted loaders: the methods that frameworks call

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
        # Set at the start, so that a pass that is left early is followed by the next epoch.
        self._next = PassPlace(start.epoch + 1)
        if hasattr(self._loader, "set_epoch"):
            self._loader.set_epoch(start.epoch)
        number = -1
        for number, batch in enumerate(self._loader):
            if number >= start.position:
                # Before the batch is yielded: a state taken while the consumer has the batch
                # counts it.
                self._standing = PassPlace(start.epoch, number + 1)
                yield batch
        if number + 1 < start.position:
            raise ConfigError(
                f"expected a pass of at least {start.position} batches, because the loaded"
                f" state is at that place, got {number + 1}; load the state over the batches with"
                " which it was taken"
            )
        self._standing = PassPlace(start.epoch + 1)


class TensorBatches(Adapted):
    """Passes over a loader whose batches hold tensors of a framework.

    Args:
        loader: The loader, or another iterable of batches.
        check_ranks: Whether rank and world size of the loader must equal those of the process.

    Attributes:
        where: The framework that knows rank and world size of the process, for messages.
    """

    where: ClassVar[str]

    def __init__(self, loader: Batches, *, check_ranks: bool) -> None:
        super().__init__(loader)
        self._check_ranks = check_ranks

    def __iter__(self) -> Iterator[Any]:
        """Start a pass.

        Raises:
            ConfigError: The rank of the loader is not that of the process.
        """
        self._check()
        return self._tensors()

    @abstractmethod
    def _ranks(self) -> tuple[int, int] | None:
        """Return rank and world size of the process; None where there is one process."""

    @abstractmethod
    def _tensor(self, name: str, values: NDArray[Any]) -> Any:
        """Return the tensor of an array, which is none of objects."""

    def _check(self) -> None:
        ranks = self._ranks() if self._check_ranks else None
        if ranks is not None:
            hold_ranks(self._loader, *ranks, self.where)

    def _tensors(self) -> Iterator[Any]:
        marks = marks_padding(self._loader)
        for batch in self._pass():
            yield converted(batch, self._tensor_or_list, marks=marks)

    def _tensor_or_list(self, name: str, values: NDArray[Any]) -> Any:
        return values.tolist() if values.dtype == object else self._tensor(name, values)


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
        " check_ranks=False if this is intended"
    )
