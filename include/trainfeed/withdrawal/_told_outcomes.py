"""What people are told of a withdrawal or a restoration: by the command, and on a run's page."""

from __future__ import annotations

from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.tags import TagProblem
from trainfeed.dataset.withdrawals import Withdrawal
from trainfeed.withdrawal._restore import Restored
from trainfeed.withdrawal._withdraw import Withdrawn

__all__ = ["restored_lines", "withdrawn_lines"]


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


def _problem(mark: Withdrawal, problem: TagProblem, *, dry_run: bool) -> str:
    """Return what became of a tag, beside the withdrawal."""
    state = "would be withdrawn" if dry_run else "is withdrawn"
    tag = f"{mark.dataset}@{problem.tag}" if problem.tag else f"the tags of {mark.dataset}"
    verb = "cannot be read" if problem.is_damage or not problem.tag else "was not moved"
    again = "" if dry_run else "; when that is mended, the same command again does the rest"
    return f"{mark.name} {state}; {tag} {verb}: {problem.error}{again}"
