"""The generation that a decision is about: who decides, what readers get instead, and its tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trainfeed.core import faults
from trainfeed.core.accounts import Decision, require_decision
from trainfeed.core.canonical_json import sha256_of
from trainfeed.errors import ConflictError, FormatError, NotFoundError, TrainFeedError
from trainfeed.files import is_there
from trainfeed.files.stores import posix
from trainfeed.versions import DatasetFolder, Version
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.history import Action, record_action
from trainfeed.versions.layout import CURRENT, generation_name
from trainfeed.versions.retire import told_missing
from trainfeed.versions.tag import move_tag
from trainfeed.versions.tag_files import (
    TagProblem,
    confirm_changes,
    tag_names,
    tags_naming,
)
from trainfeed.versions.withdraw import Withdrawal, lifted_withdrawals, withdrawal_of, withdrawals

# --- Who withdraws or restores a generation, and why


@dataclass(frozen=True)
class Maker:
    """The person behind a decision.

    Attributes:
        who: The person; the name is not proved.
        account: The account, or the run of a scheduler, that acts for the person.
        why: The reason, 3 to 500 printable characters on one line.
        request: Names one run of a scheduler for ever; None for a command. Its decision is carried
            out once: a task that is cleared finds it done, also if other people have decided since.
    """

    who: str
    account: str
    why: str
    request: str | None = None

    @property
    def digest(self) -> str:
        """Digest of the decision, 16 hex digits."""
        request = [] if self.request is None else [self.request]
        return sha256_of([self.who, self.account, self.why.strip(), *request])[:16]

    def require_complete(self) -> None:
        """Refuse a decision without a reason or a name.

        Raises:
            ConfigError: One of them is missing, or too long.
        """
        require_decision(self.why, who=self.who, account=self.account)

    def has_written(self, mark: Withdrawal) -> bool:
        """Return whether this very decision, tried before, has written a mark."""
        mine = (self.who, self.account, self.why.strip(), self.request)
        return (mark.who, mark.account, mark.why, mark.request) == mine

    def decision(self) -> Decision:
        """Return the decision for the history of a tag that is moved."""
        return Decision.now(self.why, who=self.who, account=self.account)

    def record(
        self, folder: DatasetFolder, action: str, target: str, details: Mapping[str, Any]
    ) -> None:
        """Write the action into the history, before it begins.

        Raises:
            StorageError: The publication root refused or failed.
        """
        details = {"by": self.account, **details}
        record_action(
            folder, Action.now(action, target, why=self.why.strip(), who=self.who, details=details)
        )


# --- The generation that a withdrawal is about, and what readers of its interval get afterwards


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


# --- To which generation the readers of an interval turn, whether it is good, and the turn itself


def verified(folder: DatasetFolder, interval: str, generation: int, remedy: str) -> Version:
    """Return a generation after a comparison of all its files with the manifest.

    Args:
        folder: The data set.
        interval: Name of the interval.
        generation: Number of the generation.
        remedy: What to do about a damaged one, for the message.

    Raises:
        FormatError: It is damaged; nothing was changed.
        StorageError: It cannot be read.
    """
    path = folder.version(interval, generation)
    try:
        version = Version.open(path)
        version.verify()
    except (FormatError, NotFoundError) as error:
        name = f"{folder.name}/{interval}/{generation_name(generation)}"
        message = f"{name} is damaged: {error}; nothing was changed; {remedy}"
        raise FormatError(message) from error
    return version


def turn_readers(folder: DatasetFolder, interval: str, generation: int | None) -> None:
    """Let CURRENT name a generation; remove it for None. It only hints: marks decide.

    Raises:
        StorageError: The publication root refused or failed; readers get the right one all the
            same, because marks and folders have precedence.
    """
    if bucket_mark(folder.root) is not None:
        return  # of several folders that follow a bucket, each would have a hint of its own
    pointer = folder.interval(interval) / CURRENT
    if generation is None:
        with posix.map_errors(pointer), suppress(FileNotFoundError):
            pointer.unlink()
            posix.sync_dir(pointer.parent)
    else:
        posix.replace_file(pointer, f"{generation_name(generation)}\n".encode(), is_public=True)
    faults.point("withdrawal.after_pointer")


# --- The tags that name a withdrawn generation: all are read before the mark


@dataclass(frozen=True)
class TagsAfter:
    """What became of the tags that name a withdrawn generation.

    Attributes:
        tags: Tags that still name it: opening them fails, with the reason.
        moved: Tags that name what readers get instead now, or would.
        problems: Tags that cannot be read, or could not be moved.
    """

    tags: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    problems: tuple[TagProblem, ...] = ()


def require_readable_tags(folder: DatasetFolder, mark: Withdrawal) -> tuple[str, ...]:
    """Return the tags that name a generation before it is withdrawn.

    Raises:
        FormatError: A tag is damaged; it may name the generation. Nothing was changed.
        StorageError: The publication root refused or failed; likewise.
    """
    names, problems = tags_naming(folder, mark.interval, mark.generation)
    for problem in problems:
        raise problem.error
    return names


def naming_tags(folder: DatasetFolder, mark: Withdrawal) -> TagsAfter:
    """Return the tags that name a generation; call after its mark is written.

    A call that tags it at the same time looks for marks after its change of the tag.
    """
    try:
        names, problems = tags_naming(folder, mark.interval, mark.generation)
    except TrainFeedError as error:
        return TagsAfter(problems=(TagProblem("", error),))
    return TagsAfter(tags=names, problems=problems)


def let_tags_follow(
    folder: DatasetFolder,
    mark: Withdrawal,
    readers_get: int | None,
    maker: Maker,
    *,
    dry_run: bool,
) -> TagsAfter:
    """Let the tags that name a generation name what readers get, one after the other.

    A tag stays where it is if nothing is left for readers.
    """
    found = naming_tags(folder, mark)
    moved: list[str] = []
    problems = list(found.problems)
    if not dry_run:
        problems += _confirmed(folder, problems)
    for tag in found.tags:
        try:
            if readers_get is None:
                raise _nothing_left(mark, [tag])
            if not dry_run:
                change = {mark.interval: readers_get}
                move_tag(folder, tag, change, maker.decision(), instead_of=mark.generation)
            moved.append(tag)
        except TrainFeedError as error:
            problems.append(TagProblem(tag, error))
    left = tuple(tag for tag in found.tags if tag not in moved)
    return TagsAfter(left, tuple(moved), tuple(problems))


def _confirmed(folder: DatasetFolder, known: Sequence[TagProblem]) -> list[TagProblem]:
    """Confirm the changes of all tags; an earlier call may have moved one, and was killed then.

    Tags with a known problem are left out, and so are all if they cannot be listed.
    """
    left_out = {problem.tag for problem in known}
    problems = []
    for tag in () if "" in left_out else tag_names(folder):
        try:
            if tag not in left_out:
                confirm_changes(folder, tag)
        except TrainFeedError as error:
            problems.append(TagProblem(tag, error))
    return problems


def require_target(mark: Withdrawal, tags: Sequence[str]) -> None:
    """Refuse to move tags to nothing, before anything is changed.

    Raises:
        ConflictError: There are such tags.
    """
    if tags:
        error = _nothing_left(mark, tags)
        raise ConflictError(
            f"{error}; nothing was changed; leave out the moving of tags, or build the interval"
            " first"
        )


def _nothing_left(mark: Withdrawal, tags: Sequence[str]) -> ConflictError:
    return ConflictError(
        f"no generation of {mark.dataset}/{mark.interval} is left to which {', '.join(tags)} could"
        " move"
    )
