"""The generation that a withdrawal is about, and what readers of its interval get afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.retire import told_missing
from trainfeed.dataset.withdraw import Withdrawal, lifted_withdrawals, withdrawal_of, withdrawals
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.paths import is_there
from trainfeed.withdrawal._decision_maker import Maker

__all__ = ["AskedGeneration", "asked_generation", "require_files", "withdrawn_by_run"]


@dataclass(frozen=True)
class AskedGeneration:
    """A generation that is to be withdrawn.

    Attributes:
        interval: Name of the interval.
        generation: Its number.
        is_read: Whether readers get it now.
        readers_get: Number of the generation that readers get without it; None if none is left.
        mark: The withdrawal, if an earlier try of the same decision has written it.
    """

    interval: str
    generation: int
    is_read: bool
    readers_get: int | None
    mark: Withdrawal | None


def asked_generation(
    folder: DatasetFolder, interval: str, generation: int | None, maker: Maker
) -> AskedGeneration:
    """Find the generation; None stands for the one that readers get.

    Raises:
        NotFoundError: There is none.
        ConflictError: Another decision has withdrawn it.
        StorageError: The publication root refused or failed.
    """
    readable = folder.readable_generation(interval)
    number = _number(folder, interval, readable, maker) if generation is None else generation
    mark = withdrawal_of(folder, interval, number)
    if mark is not None and not maker.has_written(mark):
        raise ConflictError(f"{mark.told}; nothing was changed; it is withdrawn already")
    if mark is None:
        require_files(folder, interval, number)
    others = [each for each in folder.generations(interval) if each != number]
    is_read = readable == number
    left = max(others, default=None) if is_read else readable
    return AskedGeneration(interval, number, is_read, left, mark)


def withdrawn_by_run(
    folder: DatasetFolder, interval: str, generation: int | None, maker: Maker
) -> Withdrawal | None:
    """Return the mark that this very run has written, also one that was taken back since.

    Raises:
        ConflictError: The run was asked for something else then.
        StorageError: The publication root refused or failed.
    """
    if maker.request is None:
        return None
    marks = [*lifted_withdrawals(folder, interval), *withdrawals(folder, interval)]
    mine = [each for each in marks if each.request == maker.request]
    if not mine:
        return None
    if not maker.has_written(mine[-1]) or generation not in {None, mine[-1].generation}:
        raise ConflictError(
            f"this run has carried out another request: {mine[-1].told}; nothing was changed; start"
            " a new run"
        )
    return mine[-1]


def require_files(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Refuse a generation that was never published, or was removed.

    Raises:
        NotFoundError: It is not there.
        StorageError: The publication root refused or failed.
    """
    name = f"{folder.name}/{interval}/{generation_name(generation)}"
    if folder.is_removed(interval, generation):
        raise NotFoundError(f"{name} was removed by retention; nothing was changed")
    if not is_there(folder.version(interval, generation)):
        raise NotFoundError(
            f"expected a published generation, {name} is none; nothing was changed; trainfeed"
            f" show {folder.name}/{interval} names the one that readers get"
        )


def _number(folder: DatasetFolder, interval: str, readable: int | None, maker: Maker) -> int:
    """Return what readers get; or what this decision has withdrawn already, in a killed try."""
    name = f"{folder.name}/{interval}"
    newer = [mark for mark in withdrawals(folder, interval) if mark.generation > (readable or 0)]
    if newer and maker.has_written(newer[-1]):
        return newer[-1].generation
    if readable is None:
        told = told_missing(folder, [interval]).removeprefix("; ") or "none was published"
        raise NotFoundError(f"readers get no version of {name}: {told}; nothing was changed")
    if newer:
        older = f"{name}/{generation_name(readable)}"
        raise ConflictError(
            f"{newer[-1].told}; readers get {older} since; nothing was changed; to withdraw the"
            f" older one, too, name it: trainfeed withdraw {older} --why WHY"
        )
    return readable
