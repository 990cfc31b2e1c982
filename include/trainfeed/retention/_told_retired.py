"""What people are told of retired intervals: by the command, and on the page of a run."""

from __future__ import annotations

from trainfeed.retention._retire import Retired

__all__ = ["retired_lines"]


def retired_lines(name: str, asked: str, done: Retired) -> list[str]:
    """Return the outcome of a retirement: what went for good, what was gone, what is left.

    Args:
        name: The data set.
        asked: The range.
        done: What a call retired, or would.
    """
    count, size = len(done.intervals), done.removals.num_bytes
    intervals = "1 interval" if count == 1 else f"{count} intervals"
    verb = "would be" if done.dry_run else "was" if count == 1 else "were"
    lines = [f"{name}/{asked}: {intervals} {verb} retired for good, {size} bytes"]
    if done.already:
        first, number = done.already[0].told, len(done.already)
        lines.append(f"{number} of them were retired before, as {name}/{first}")
    if done.refused:
        lines.append(f"{len(done.refused)} intervals are needed:")
    lines += [
        f"{kept.item.kind} {name}/{kept.item.name} stays: {kept.why}" for kept in done.removals.kept
    ]
    if done.dry_run and not done.refused:
        lines.append(
            "landing files, which hold the raw records, go with them where `retention.landing` has"
            " a rule, and then their plans; nothing was changed"
        )
    elif any(kept.item.kind == "landing" for kept in done.removals.kept):
        lines.append(
            "landing files hold the raw records; to remove them, too, give retention.landing in"
            f" dataset.yaml a rule, then: trainfeed prune {name} --kind landing"
        )
    return lines
