"""``accept-hole``: a person decides that readers go without a part between two versions."""

from __future__ import annotations

from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import format_time, name_runs, range_text
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.versions.coverage import holes_between
from trainfeed.versions.history import Action, record_action
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.schedule import range_of, read_schedule
from trainfeed.versions.skip import AcceptedHole, accepted_holes, lift_hole, write_hole
from trainfeed.versions.state_folder import deciding


@deciding("accept-hole")
def accept_hole(
    folder: DatasetFolder, asked: str, decision: Decision, *, dry_run: bool = False
) -> tuple[AcceptedHole, bool]:
    """Accept a hole between two versions; readers open ranges with it from then on, and list it.

    Args:
        folder: The data set.
        asked: Exactly the hole, or a part of it, in the forms of ``parse_range``.
        decision: Who decides, and why.
        dry_run: Whether to check everything and change nothing.

    Returns:
        The decision that holds, which may be about more than ``asked``, and whether this call
        wrote it.

    Raises:
        ConflictError: ``asked`` is no hole, has fractions of a second, or an interval of the
            schedule fits into it.
        WindowError: ``asked`` is no range.
        FormatError: A manifest, a marker, a decision or the recorded schedule is damaged.
        StorageError: The publication root refused or failed.
    """
    span = range_of(folder, asked)
    start, end = format_time(span.start), format_time(span.end)
    schedule = read_schedule(folder)
    zone = None if schedule is None else schedule.zone
    wanted = AcceptedHole(folder.name, start, end, zone, **vars(decision))
    for hole in accepted_holes(folder):
        if hole.span[0] <= span.start and span.end <= hole.span[1]:
            return hole, False
    if span.start.microsecond or span.end.microsecond:
        # The file of a decision has its name of whole seconds.
        raise ConflictError(
            f"expected a hole from a whole second to another, got {wanted.range}; nothing was"
            " changed; name a range without fractions"
        )
    _require_hole(folder, wanted)
    if dry_run:
        return wanted, False
    _record(folder, "accept-hole", wanted, decision)
    return write_hole(folder, wanted)


@deciding("accept-hole")
def revoke_hole(
    folder: DatasetFolder, asked: str, decision: Decision, *, dry_run: bool = False
) -> tuple[AcceptedHole, bool]:
    """Take the acceptance of a hole back; the history keeps it.

    Args:
        folder: The data set.
        asked: Exactly the hole that was accepted.
        decision: Who takes it back, and why.
        dry_run: Whether to check everything and change nothing.

    Returns:
        The decision that held, and whether this call removed it.

    Raises:
        NotFoundError: Nobody has accepted exactly this hole.
        WindowError, FormatError, StorageError: As of ``accept_hole``.
    """
    span = range_of(folder, asked)
    found = {hole.span: hole for hole in accepted_holes(folder)}
    hole = found.get((span.start, span.end))
    if hole is None:
        known = ", ".join(each.range for each in found.values()) or "none"
        raise NotFoundError(
            f"expected an accepted hole of data set {folder.name!r}, {asked} is none; nothing was"
            f" changed; accepted are: {known}"
        )
    if dry_run:
        return hole, False
    _record(folder, "revoke-hole", hole, decision)
    return hole, lift_hole(folder, hole)


def _record(folder: DatasetFolder, action: str, hole: AcceptedHole, decision: Decision) -> None:
    """Write the action into the history, before it begins."""
    details = {"by": decision.account, "hole": hole.start, "end": hole.end}
    target = f"{folder.name}/{hole.range}"
    record_action(
        folder, Action.now(action, target, why=decision.why, who=decision.who, details=details)
    )


def _require_hole(folder: DatasetFolder, wanted: AcceptedHole) -> None:
    name = folder.name
    pieces, intervals = holes_between(folder)
    start, end = wanted.span
    near = [(a, b) for a, b in pieces if a < end and start < b]
    if any(a <= start and end <= b for a, b in near):
        return
    left = [i for i in intervals if i.start < end and start < i.end]
    runs = name_runs([each for each in left if not folder.skip(each.name).exists()])
    holes = ", ".join(range_text(*each, wanted.zone) for each in near)
    remedy = f"the hole there is {holes}: accept that"
    if runs:
        remedy = (
            f"intervals of the schedule fit there: build them (trainfeed build {name} --interval"
            f" {runs[0]}), or let them be skipped (missing: skip)"
        )
    elif not near:
        remedy = f"trainfeed status {name} lists the holes between versions"
    raise ConflictError(
        f"expected a hole between two versions of data set {name!r} into which no interval of the"
        f" schedule fits, {wanted.range} is none; nothing was changed; {remedy}"
    )
