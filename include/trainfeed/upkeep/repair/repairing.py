"""Repairs one version: finds the damage, gets each file, and swaps in what is proved.

A repair that a kill ended is found in the history, and is completed by the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, Final

from trainfeed.core.accounts import reason_problem
from trainfeed.core.config import Environment
from trainfeed.core.datacenters import local_source
from trainfeed.core.intervals import format_time, parse_time
from trainfeed.errors import ConfigError, FormatError, NotFoundError, WindowError
from trainfeed.files import is_there
from trainfeed.specification import DatasetSpec
from trainfeed.upkeep.repair.bucket import brought_here
from trainfeed.upkeep.repair.damage import FileOutcome, Finding, RepairReport, find_damage
from trainfeed.upkeep.repair.files import FileRepair, age_of, require_changeable, unchanged_age
from trainfeed.upkeep.repair.manifest import manifest_state, repair_manifest
from trainfeed.upkeep.repair.rebuilding import RepairOrder, RepairPlace, repair_place
from trainfeed.versions import DatasetFolder, Version, require_writable_root
from trainfeed.versions.history import Action, actions, record_action
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST, generation_name
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.retire import generation_for_readers
from trainfeed.versions.state_folder import decide

# --- The files that an action of the history names: the first of them, and how many there are

_MOST_FILES: Final = 1_000


@dataclass(frozen=True)
class NamedFiles:
    """Files of a version, of which a record names the first thousand.

    Attributes:
        names: Their names, sorted; of more than a thousand files perhaps only the first.
        number: How many files there are.
    """

    names: tuple[str, ...] = ()
    number: int = 0

    @classmethod
    def of(cls, names: Iterable[str]) -> NamedFiles:
        """Return files all of whose names are known."""
        known = tuple(sorted(set(names)))
        return cls(known, len(known))

    @classmethod
    def recorded(cls, action: Action) -> NamedFiles:
        """Return the files that an action names."""
        found = action.details.get("files")
        names = tuple(sorted(found)) if isinstance(found, dict) else ()
        number = action.details.get("num_files")
        return cls(names, max(number if isinstance(number, int) else 0, len(names)))

    def __or__(self, other: NamedFiles) -> NamedFiles:
        """Return the files of both.

        A name behind the last of a list that was cut counts as one of the files without a name.
        """
        names = tuple(sorted({*self.names, *other.names}))
        without = max(self._unnamed(other), other._unnamed(self))
        return NamedFiles(names, len(names) + without)

    def _unnamed(self, other: NamedFiles) -> int:
        """Return how many files have no name here, and none in ``other``."""
        last = self.names[-1] if self.names else ""
        behind = len(other.names) - bisect_right(other.names, last)
        return max(self.number - len(self.names) - behind, 0)


# --- Repairs of a version that began and have no end in the history

BEGAN, REPAIRED, FAILED = "repair", "repaired", "repair-failed"
SINCE = "since"


@dataclass(frozen=True)
class BegunRepair:
    """What repairs began to do, after the last one that came to its end.

    Attributes:
        files: The damaged files that they found.
        why: The reason of the last of them.
        since: Modification time of the version's folder before the first of them; None if that
            one was of a trainfeed that did not record it.
    """

    files: NamedFiles
    why: str
    since: datetime | None


def begun_repair(folder: DatasetFolder, target: str) -> BegunRepair | None:
    """Return what was begun for a version, None if every repair of it came to its end.

    Args:
        folder: The data set.
        target: The version, as ``flights/2013-01-01/g0001``.

    Raises:
        AccessDeniedError: This account may not read the history.
        FormatError: Something else than a folder is in the place of the history.
        StorageError: The publication root refused or failed.
    """
    begun: list[Action] = []
    for each in actions(folder, {BEGAN, REPAIRED, FAILED}):
        if isinstance(each, Action) and each.target == target:
            begun = [*begun, each] if each.action == BEGAN else []
    if not begun:
        return None
    files = reduce(or_, map(NamedFiles.recorded, begun))
    return BegunRepair(files, begun[-1].why, _since(begun[0]))


def _since(action: Action) -> datetime | None:
    try:
        return parse_time(action.details[SINCE])
    except (KeyError, TypeError, WindowError):
        return None


# --- Repairs one version: finds the damage, gets each damaged file, and swaps in what is proved

# Outcome of a file that an earlier repair began with, while no manifest says what it should be.
_NOT_COMPARED: Final = "not compared"


@dataclass(frozen=True)
class RepairWish:
    """The options of a repair.

    Attributes:
        why: The reason, for the history, 3 to 500 printable characters on one line. None: the
            history says that nobody gave one, and which files were damaged.
        who: The person; the account if None.
        account: The run that acts for the person; None for the account of this process.
        dry_run: Whether only the damage is shown.
        backup: A folder with a copy of the version, such as that of a snapshot; files that have
            the published digests are taken from there.
    """

    why: str | None = None
    who: str | None = None
    account: str | None = None
    dry_run: bool = False
    backup: Path | None = None

    def __post_init__(self) -> None:
        # A folder given as text becomes a Path.
        if self.backup is not None:
            object.__setattr__(self, "backup", Path(local_source(self.backup)))


def repair(
    spec: DatasetSpec,
    env: Environment,
    interval: str,
    generation: int | None = None,
    wish: RepairWish | None = None,
) -> RepairReport:
    """Repair a version, as far as its files can be had with the digests of its manifest.

    Args:
        spec: The data set, as it is now.
        env: Folders and connections.
        interval: Name of the interval.
        generation: The generation; by default the one that readers get.
        wish: Options.

    Returns:
        What was found, and what became of it. Files that could not be repaired are as they were.

    Raises:
        ConfigError: The backup is no copy of a version, or the reason is too short or too long.
        NotFoundError: There is no such version.
        AccessDeniedError: This account may not change the version.
        RootError: The publication root was not made by ``trainfeed init``.
        IngestError, StorageError: A source or file system failed now; what was repaired before
            stays, and another call goes on.
    """
    wish = wish or RepairWish()
    if wish.why is not None and (problem := reason_problem(wish.why)):
        raise ConfigError(f"{problem}; nothing was changed; leave the reason out, or correct it")
    require_writable_root(env)
    if wish.backup is not None and not is_there(Path(wish.backup) / MANIFEST):
        raise ConfigError(
            f"expected the copy of a version, with its {MANIFEST}, in {wish.backup}; nothing was"
            " changed; name the folder of the version itself, or leave the copy out"
        )
    folder = DatasetFolder(Path(env.root), spec.name)
    number = generation_for_readers(folder, interval) if generation is None else generation
    _require_there(folder, interval, number)
    order = RepairOrder(spec, env, folder, interval, number, wish.backup)
    with brought_here(order.path, changes=not wish.dry_run):
        return _shown(order) if wish.dry_run else _done(order, wish)


def _shown(order: RepairOrder) -> RepairReport:
    """Return the findings, and how they would be repaired."""
    version, damage = _found(order)
    if version is None:
        how = "would be proved or made again; the other files are compared after that"
        files = tuple(FileOutcome(each, "found", how) for each in damage)
    else:
        files = FileRepair(order, version).planned(damage)
    return RepairReport(order.target, dry_run=True, files=files)


def _done(order: RepairOrder, wish: RepairWish) -> RepairReport:
    """Repair what is found, and end what earlier repairs began."""
    version, damage = _found(order)
    begun = begun_repair(order.folder, order.target)
    if not damage and begun is None:
        return RepairReport(order.target, dry_run=False)
    require_changeable(order.path)
    before = NamedFiles() if begun is None else begun.files
    since = (None if begun is None else begun.since) or age_of(order.path)
    if not damage:
        with unchanged_age(order.path, since):
            wish = replace(wish, why=wish.why or (begun.why if begun else ""))
            _record(REPAIRED, order, wish, dict.fromkeys(before.names, "repaired"), before)
        return RepairReport(order.target, dry_run=False)
    # The stages work on a temporary root: retention is told on the real one what they need.
    held = [(order.interval, order.generation)]
    wish = replace(wish, why=wish.why or _damaged(damage))
    with hold_versions(order.folder, held, f"repair of {order.target}"):

        def begin(found: Sequence[Finding]) -> None:
            kinds = {each.name: str(each.kind) for each in found}
            _record(BEGAN, order, wish, kinds, more={SINCE: format_time(since)})

        begin(damage)
        with unchanged_age(order.path, since), repair_place(order.env, order.folder) as place:
            if version is None:
                report = _with_manifest(order, damage, place, begin)
            else:
                report = _files_repaired(order, version, damage, place)
    known = "repaired" if _is_compared(report) else _NOT_COMPARED
    outcomes = dict.fromkeys(before.names, known)
    outcomes |= {each.finding.name: each.outcome for each in report.files}
    _record(REPAIRED if report.is_whole else FAILED, order, wish, outcomes, before)
    return report


def _is_compared(report: RepairReport) -> bool:
    """Return whether all files were compared with a manifest: it was intact, or is again."""
    about = {MANIFEST, MANIFEST_DIGEST}
    return all(each.outcome == "repaired" for each in report.files if each.finding.name in about)


def _damaged(damage: Sequence[Finding]) -> str:
    """Return the reason of a repair that nobody gave one for: the damage itself."""
    first = damage[0]
    told = f"no reason was given; damaged files: {len(damage)}, first: {first.name[:200]!a}"
    return f"{told}: {first.kind}"


def _found(order: RepairOrder) -> tuple[Version | None, list[Finding]]:
    """Return the version and its damage; the damage of its manifest if that cannot be read."""
    try:
        version = Version.open(order.path)
    except (FormatError, NotFoundError):
        state = manifest_state(order.folder, order.interval, order.generation)
        if not (findings := state.findings()):
            raise
        return None, findings
    return version, find_damage(version)


def _with_manifest(
    order: RepairOrder,
    damage: Sequence[Finding],
    place: RepairPlace,
    begin: Callable[[Sequence[Finding]], None],
) -> RepairReport:
    """Repair the manifest, and then what it shows to be damaged, which ``begin`` records first."""
    done = repair_manifest(order, place)
    first = tuple(FileOutcome(each, done.outcome, done.how) for each in damage)
    report = RepairReport(order.target, dry_run=False, offers=done.offers)
    if done.outcome == "repaired":
        version = Version.open(order.path)
        if further := find_damage(version):
            begin(further)
        report = _files_repaired(order, version, further, place)
    return replace(report, files=(*first, *report.files), effort=done.effort + report.effort)


def _files_repaired(
    order: RepairOrder, version: Version, damage: Sequence[Finding], place: RepairPlace
) -> RepairReport:
    files, effort, offers = FileRepair(order, version).repaired(damage, place)
    return RepairReport(
        order.target, dry_run=False, files=tuple(files), effort=effort, offers=offers
    )


def _record(
    action: str,
    order: RepairOrder,
    wish: RepairWish,
    files: Mapping[str, str],
    before: NamedFiles = NamedFiles(),
    *,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write an action with the first files and their number; ``before`` may have further ones."""
    named = dict(sorted(files.items())[:_MOST_FILES])
    number = (before | NamedFiles.of(files)).number
    details: dict[str, Any] = {"files": named, "num_files": number, **(more or {})}
    if wish.account is not None:
        details["by"] = wish.account
    made = Action.now(action, order.target, why=wish.why or "", who=wish.who, details=details)
    decide(order.folder, "repair", partial(record_action, order.folder, made))


def _require_there(folder: DatasetFolder, interval: str, generation: int) -> None:
    path = folder.version(interval, generation)
    if folder.is_removed(interval, generation):
        raise NotFoundError(
            f"{path} was removed by retention, for good; its number is never used again; build the"
            f" interval again: trainfeed build {folder.name} --interval {interval}"
        )
    if not path.is_dir() or path.is_symlink():
        raise NotFoundError(
            f"{path} is no folder of a version; published generations of the interval:"
            f" {', '.join(map(generation_name, folder.generations(interval))) or 'none'}"
        )
