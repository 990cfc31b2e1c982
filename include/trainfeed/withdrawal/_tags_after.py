"""The tags that name a withdrawn generation: all are read before the mark, and told or moved after.

The mark stands whatever happens to the tags. So what fails after it is a part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.tag import move_tag
from trainfeed.dataset.tag_files import TagProblem, confirm_changes, tag_names, tags_naming
from trainfeed.dataset.withdraw import Withdrawal
from trainfeed.errors import ConflictError, TrainFeedError
from trainfeed.withdrawal._decision_maker import Maker

__all__ = ["TagsAfter", "let_tags_follow", "naming_tags", "require_readable_tags", "require_target"]


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
