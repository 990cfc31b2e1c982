"""``withdraw`` hides a generation from readers, ``restore`` gives it back after it is verified."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from trainfeed.core.config import Environment
from trainfeed.core.intervals import format_time, parse_time
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.files.stores import posix
from trainfeed.pipeline.plans import plan_of_version
from trainfeed.upkeep.withdrawal.generation import (
    AskedGeneration,
    Maker,
    asked_generation,
    let_tags_follow,
    naming_tags,
    require_files,
    require_readable_tags,
    require_target,
    turn_readers,
    verified,
    withdrawn_by_run,
)
from trainfeed.versions import DatasetFolder, Manifest, require_writable_root
from trainfeed.versions.layout import generation_name
from trainfeed.versions.state_folder import decide
from trainfeed.versions.tag_files import TagProblem
from trainfeed.versions.withdraw import (
    Withdrawal,
    lift_withdrawal,
    lifted_withdrawals,
    withdrawal_of,
    withdrawals,
    write_withdrawal,
)

# --- ``withdraw``: a person hides a generation; readers turn to the previous good one

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Withdrawn:
    """A generation that was withdrawn, or would be.

    Attributes:
        mark: The withdrawal.
        readers_get: Number of the generation that readers get afterwards; None if none is left.
        is_new: Whether this call withdrew it; False in a dry run, and if an earlier try had.
        tags: Tags that name it: opening them fails, with the reason.
        moved_tags: Tags that name ``readers_get`` instead now, or would.
        tag_problems: Tags that became unreadable after the mark, and tags that could not be moved.
            The withdrawal stands; the same call again moves the tags that are left.
    """

    mark: Withdrawal
    readers_get: int | None
    is_new: bool
    tags: tuple[str, ...] = ()
    moved_tags: tuple[str, ...] = ()
    tag_problems: tuple[TagProblem, ...] = ()


def withdraw(  # noqa: PLR0913 - a version, a decision, and how far it goes
    env: Environment,
    name: str,
    interval: str,
    generation: int | None,
    maker: Maker,
    *,
    move_tags: bool = False,
    dry_run: bool = False,
) -> Withdrawn:
    """Hide a generation from readers, trainings and planners, after a look at the one before it.

    The whole content of the generation that readers turn to is compared with its manifest first,
    and all tags are read. If none is left, the interval has no version for readers until it is
    restored or built with a reason. The same decision again does nothing, so that a killed call can
    be repeated.

    Args:
        env: Folders and connections.
        name: The data set.
        interval: Name of the interval.
        generation: Number of the generation; None for the one that readers get.
        maker: Who decides, and why.
        move_tags: Whether tags that name the generation name the one that readers get from then
            on, one tag after the other. Without it they stay, and opening them fails.
        dry_run: Whether to check everything and change nothing.

    Raises:
        ConfigError: The decision has no reason.
        NotFoundError: There is no such generation, or readers get none.
        ConflictError: It is withdrawn already, for another reason or by another person; or readers
            would turn to a generation with the same content; or tags are to move, and no
            generation is left; or no generation is named, and a newer one than readers get is
            withdrawn; or this run was asked for something else before.
        FormatError: The generation that readers would turn to is damaged, or a tag is.
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: The publication root refused or failed.
    """
    require_writable_root(env, decides=True)
    maker.require_complete()
    folder = DatasetFolder(Path(env.root), name)
    hide = partial(_withdraw, folder, interval, generation, maker)
    return decide(folder, "withdraw", partial(hide, move_tags=move_tags, dry_run=dry_run))


def _withdraw(
    folder: DatasetFolder,
    interval: str,
    generation: int | None,
    maker: Maker,
    *,
    move_tags: bool,
    dry_run: bool,
) -> Withdrawn:
    while True:
        before = withdrawn_by_run(folder, interval, generation, maker)
        if before is not None and before.lifted_by is not None:
            return Withdrawn(before, folder.readable_generation(interval), is_new=False)
        generation = generation if before is None else before.generation
        found = asked_generation(folder, interval, generation, maker)
        mark = found.mark or _mark_of(folder, found, maker)
        tags = require_readable_tags(folder, mark) if found.mark is None else ()
        if move_tags and found.readers_get is None:
            require_target(mark, tags)
        _require_good(folder, found, mark, for_tags=move_tags)
        if dry_run:
            done = Withdrawn(mark, found.readers_get, is_new=False)
            return _with_tags(folder, done, maker, move_tags=move_tags, dry_run=True)
        with posix.file_lock(folder.interval_lock(interval)):
            # The check may have taken long; if anything was published or hidden meanwhile, again.
            if asked_generation(folder, interval, generation, maker) != found:
                continue
            done = _hide(folder, found, mark, maker)
        return _with_tags(folder, done, maker, move_tags=move_tags, dry_run=False)


def _hide(
    folder: DatasetFolder, found: AskedGeneration, mark: Withdrawal, maker: Maker
) -> Withdrawn:
    """Write the mark, unless an earlier try of the same decision has; then CURRENT follows."""
    if found.mark is not None:
        turn_readers(folder, found.interval, found.readers_get)
        return Withdrawn(mark, found.readers_get, is_new=False)
    facts = {"generation": mark.generation, "readers_get": found.readers_get}
    maker.record(folder, "withdraw", mark.name, facts)
    write_withdrawal(folder, mark)
    turn_readers(folder, found.interval, found.readers_get)
    logger.info("%s", mark.told)
    return Withdrawn(mark, found.readers_get, is_new=True)


def _with_tags(
    folder: DatasetFolder, done: Withdrawn, maker: Maker, *, move_tags: bool, dry_run: bool
) -> Withdrawn:
    mark = done.mark
    after = naming_tags(folder, mark)
    if move_tags:
        after = let_tags_follow(folder, mark, done.readers_get, maker, dry_run=dry_run)
    return replace(done, tags=after.tags, moved_tags=after.moved, tag_problems=after.problems)


def _mark_of(folder: DatasetFolder, found: AskedGeneration, maker: Maker) -> Withdrawal:
    mark = Withdrawal(
        folder.name,
        found.interval,
        found.generation,
        who=maker.who,
        account=maker.account,
        why=maker.why.strip(),
        at=format_time(datetime.now(UTC)),
        request=maker.request,
    )
    try:
        manifest, digest = Manifest.read(folder.version(found.interval, found.generation))
    except (FormatError, NotFoundError) as error:
        logger.warning("the mark of %s cannot tell its content: %s", mark.name, error)
        return mark
    return replace(
        mark,
        fingerprint=manifest.fingerprint,
        content_digest=manifest.content_digest,
        manifest_sha256=digest,
        plan=manifest.plan,
        reason=_reason(folder, found.interval, manifest),
    )


def _reason(folder: DatasetFolder, interval: str, manifest: Manifest) -> str | None:
    """Return the reason of the build, which the manifest lacks if nothing was superseded."""
    plan = plan_of_version(folder, interval, manifest.plan)
    return (manifest.supersedes or {}).get("why") if plan is None else plan.rebuild


def _require_good(
    folder: DatasetFolder, found: AskedGeneration, mark: Withdrawal, *, for_tags: bool
) -> None:
    """Verify the generation that readers or tags turn to, and that its content is another one."""
    if found.readers_get is None or not (found.is_read or for_tags):
        return
    name = f"{folder.name}/{found.interval}/{generation_name(found.readers_get)}"
    first = f"trainfeed withdraw {name} --why WHY"
    remedy = (
        f"readers would turn to it; mend it: trainfeed repair {name}; or withdraw it first: {first}"
    )
    version = verified(folder, found.interval, found.readers_get, remedy)
    if version.manifest.content_digest == mark.content_digest:
        raise ConflictError(
            f"{name}, to which readers would turn, has the same content as {mark.name}; nothing"
            f" was changed; withdraw it first: {first}"
        )


def withdrawn_lines(done: Withdrawn, *, dry_run: bool) -> list[str]:
    """Return the outcome of a withdrawal: the version, what readers get, tags, and the way back."""
    mark, name = done.mark, f"{done.mark.dataset}/{done.mark.interval}"
    lines = [f"{mark.name} would be withdrawn; nothing was changed" if dry_run else mark.told]
    if done.readers_get is None:
        lines.append(f"no version of {name} is left for readers")
    else:
        lines.append(f"readers get {name}/{generation_name(done.readers_get)}")
    verb = "would name" if dry_run else "names"
    lines += [f"{mark.dataset}@{tag} {verb} that one, too" for tag in done.moved_tags]
    lines += [
        f"{mark.dataset}@{tag} names it, and opening {mark.dataset}@{tag} fails; to move the tag,"
        f" withdraw with --move-tags, or: trainfeed tag {mark.dataset} RANGE {tag} --why WHY"
        for tag in done.tags
    ]
    lines += [_problem(mark, problem, dry_run=dry_run) for problem in done.tag_problems]
    if not dry_run:
        lines.append(f"to take it back: trainfeed restore {mark.name} --why WHY")
    return lines


def _problem(mark: Withdrawal, problem: TagProblem, *, dry_run: bool) -> str:
    """Return what became of a tag, beside the withdrawal."""
    state = "would be withdrawn" if dry_run else "is withdrawn"
    tag = f"{mark.dataset}@{problem.tag}" if problem.tag else f"the tags of {mark.dataset}"
    verb = "cannot be read" if problem.is_damage or not problem.tag else "was not moved"
    again = "" if dry_run else "; when that is mended, the same command again does the rest"
    return f"{mark.name} {state}; {tag} {verb}: {problem.error}{again}"


# --- ``restore``: a person takes a withdrawal back; the generation is verified first


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
    require_writable_root(env, decides=True)
    maker.require_complete()
    folder = DatasetFolder(Path(env.root), name)
    give_back = partial(_restore, folder, interval, generation, maker)
    return decide(folder, "restore", partial(give_back, dry_run=dry_run, asked_at=asked_at))


def _restore(
    folder: DatasetFolder,
    interval: str,
    generation: int | None,
    maker: Maker,
    *,
    dry_run: bool,
    asked_at: datetime | None,
) -> Restored:
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
