"""``restore``: a person takes a withdrawal back; the generation is verified first."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, require_writable_root
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.withdraw import (
    Withdrawal,
    lift_withdrawal,
    lifted_withdrawals,
    withdrawal_of,
    withdrawals,
)
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.intervals import format_time, parse_time
from trainfeed.storage import posix
from trainfeed.withdrawal._asked_generation import require_files
from trainfeed.withdrawal._decision_maker import Maker
from trainfeed.withdrawal._turn import turn_readers, verified

__all__ = ["Restored", "restore", "restored_lines"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    """A generation that was given back to readers, or would be.

    Attributes:
        mark: The withdrawal that was taken back, or would be.
        readers_get: Number of the generation that readers get afterwards: the newest one.
        is_new: Whether this call gave it back; False in a dry run, and if an earlier call had.
    """

    mark: Withdrawal
    readers_get: int | None
    is_new: bool


def restore(  # noqa: PLR0913 - a version, a decision, and when it was asked for
    env: Environment,
    name: str,
    interval: str,
    generation: int | None,
    maker: Maker,
    *,
    dry_run: bool = False,
    asked_at: datetime | None = None,
) -> Restored:
    """Give a withdrawn generation back to readers, after a comparison with its manifest.

    Nothing of the withdrawal is lost: the mark keeps its content under another name. The same
    decision again finds what it gave back, and no other generation, so that it can be repeated.

    Args:
        env: Folders and connections.
        name: The data set.
        interval: Name of the interval.
        generation: Number of the generation; None for the newest withdrawn one.
        maker: Who decides, and why.
        dry_run: Whether to check everything and change nothing.
        asked_at: When the person asked, UTC; a later withdrawal is not taken back. None for now.

    Raises:
        ConfigError: The decision has no reason.
        NotFoundError: It is not withdrawn, or its files were removed.
        FormatError: It is damaged.
        ConflictError: Another person changed it meanwhile, or withdrew it after ``asked_at``.
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: The publication root refused or failed.
    """
    require_writable_root(env)
    maker.require_complete()
    folder = DatasetFolder(Path(env.root), name)
    if (before := _given_back_before(folder, interval, generation, maker)) is not None:
        return before
    mark = _newest(folder, interval) if generation is None else None
    number = generation if mark is None else mark.generation
    mark = None if number is None else withdrawal_of(folder, interval, number)
    if mark is None:
        what = f"{folder.name}/{interval}"
        what += "" if generation is None else f"/{generation_name(generation)}"
        raise NotFoundError(f"nothing of {what} is withdrawn; nothing was changed")
    if asked_at is not None:
        _require_older(folder, mark, asked_at)
    _require_same(folder, mark)
    if dry_run:
        return Restored(mark, _newest_with(folder, mark), is_new=False)
    with posix.file_lock(folder.interval_lock(interval)):
        require_files(folder, interval, mark.generation)
        readers_get = _newest_with(folder, mark)
        maker.record(folder, "restore", mark.name, {"withdrawal": mark.to_json()})
        # CURRENT comes first: it counts only from the moment at which the mark is gone.
        turn_readers(folder, interval, readers_get)
        lift_withdrawal(folder, mark, maker.digest)
    logger.info("%s is given back by %s: %s", mark.name, maker.who, maker.why)
    return Restored(replace(mark, lifted_by=maker.digest), readers_get, is_new=True)


def _newest(folder: DatasetFolder, interval: str) -> Withdrawal | None:
    return max(withdrawals(folder, interval), key=lambda each: each.generation, default=None)


def _newest_with(folder: DatasetFolder, mark: Withdrawal) -> int:
    return max([*folder.generations(mark.interval), mark.generation])


def _require_older(folder: DatasetFolder, mark: Withdrawal, asked_at: datetime) -> None:
    """Refuse a request that is older than the withdrawal: it was about another one."""
    path = folder.withdrawal_mark(mark.interval, mark.generation)
    with posix.map_errors(path):
        # A damaged mark tells no time.
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    at = parse_time(mark.at) if mark.at else written
    if at > asked_at:
        raise ConflictError(
            f"{mark.told}; that was after this restoration was asked for, at"
            f" {format_time(asked_at)}; nothing was changed; ask for it again"
        )


def _require_same(folder: DatasetFolder, mark: Withdrawal) -> None:
    """Compare the generation with its manifest, and the manifest with the mark."""
    require_files(folder, mark.interval, mark.generation)
    remedy = f"mend it: trainfeed repair {mark.name}; or build the interval again"
    version = verified(folder, mark.interval, mark.generation, remedy)
    if mark.manifest_sha256 not in {None, version.manifest_sha256}:
        raise FormatError(
            f"{mark.name} is not the version that was withdrawn: expected a manifest with SHA-256"
            f" {mark.manifest_sha256}, got {version.manifest_sha256}; nothing was changed"
        )


def _given_back_before(
    folder: DatasetFolder, interval: str, generation: int | None, maker: Maker
) -> Restored | None:
    """Return what this very decision has given back, and make its name durable.

    A person may decide the same again about a generation that was withdrawn again; a run may not.
    """
    lifted = lifted_withdrawals(folder, interval, generation)
    mine = [each for each in lifted if each.lifted_by == maker.digest]
    if not mine:
        return None
    if maker.request is None and withdrawal_of(folder, interval, mine[-1].generation) is not None:
        return None
    posix.sync_dir(folder.interval(interval))
    return Restored(mine[-1], folder.readable_generation(interval), is_new=False)


def restored_lines(done: Restored, *, dry_run: bool) -> list[str]:
    """Return the outcome of a restoration: the version, and what readers get."""
    name = done.mark.name
    if dry_run:
        lines = [f"{name} is intact and would be restored; nothing was changed"]
    elif done.is_new:
        lines = [f"{name} is intact and restored; {done.mark.told}"]
    else:
        lines = [f"{name} was restored before; {done.mark.told}"]
    if done.readers_get is not None:
        gets = generation_name(done.readers_get)
        lines.append(f"readers get {done.mark.dataset}/{done.mark.interval}/{gets}")
    return lines
