"""The rules of ``cp SOURCE… TARGET``: sources and the names that they get, as with ``cp``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError, TrainFeedError
from trainfeed.pfs.transfer._copy_globs import expanded
from trainfeed.pfs.transfer._copy_values import CopyOptions, Place
from trainfeed.pfs.trees import Entry, Kind

__all__ = ["PlannedCopy", "RefusedCopy", "planned_copies"]


@dataclass(frozen=True)
class PlannedCopy:
    """One source and the name of its copy.

    Attributes:
        source: File or folder.
        target: The name of the copy; for ``FOLDER/.`` the folder that gets what is in it.
        entry: What the source is.
        existing: What has the name of the copy.
    """

    source: Place
    target: Place
    entry: Entry
    existing: Entry | None


@dataclass(frozen=True)
class RefusedCopy:
    """One source that is not copied.

    Attributes:
        source: The source.
        error: Why.
    """

    source: Place
    error: TrainFeedError


def planned_copies(
    sources: Sequence[Place], target: Place, options: CopyOptions
) -> Iterator[PlannedCopy | RefusedCopy]:
    """Yield the copies of a call, and the sources that are refused; the others go on.

    Raises:
        ConfigError: The target does not suit the sources; nothing is copied.
        StorageError: A tree refused or failed.
    """
    refused: list[RefusedCopy] = []
    places: list[Place] = []
    for source in sources:
        try:
            places += expanded(source)
        except NotFoundError as error:
            refused.append(RefusedCopy(source, error))
    found = [(place, _sourced(place, options)) for place in places]
    entry = _targeted(target, [each for _, each in found], len(sources) > 1 or len(places) > 1)
    yield from refused
    given: set[str] = set()
    for place, each in found:
        try:
            if isinstance(each, TrainFeedError):
                raise each
            yield _planned(place, each, target, entry, given)
        except TrainFeedError as error:
            yield RefusedCopy(place, error)


def _sourced(place: Place, options: CopyOptions) -> Entry | TrainFeedError:
    """Return the entry of a source, or why it is not copied."""
    try:
        entry = place.tree.stat(place.parts)
    except TrainFeedError as error:
        return error
    if entry.kind is Kind.FOLDER and not options.is_recursive:
        return ConfigError(
            f"{place.shown}: expected a file, got a folder, which was left out; copy folders with"
            " -r"
        )
    if entry.kind in (Kind.LINK, Kind.OTHER):
        return FormatError(
            "expected a file or a folder, got a link or a special file, which was left out; name"
            " the file itself",
            path=place.shown,
        )
    if place.is_folder and entry.kind is not Kind.FOLDER:
        return NotFoundError(f"{place.shown}/: expected a folder, got a file; leave the slash out")
    return entry


def _targeted(
    target: Place, found: Sequence[Entry | TrainFeedError], is_several: bool
) -> Entry | None:
    """Return the entry of the target; None if nothing has the name."""
    try:
        entry = target.tree.stat(target.parts)
    except NotFoundError:
        entry = None
    is_folder = entry is not None and entry.kind is Kind.FOLDER
    copies_folder = not is_several and any(
        isinstance(each, Entry) and each.kind is Kind.FOLDER for each in found
    )
    if entry is None and target.is_folder and not copies_folder and target.makes_folder:
        if any(isinstance(each, Entry) for each in found):
            target.tree.make_folder(target.parts)
        return Entry("", Kind.FOLDER, 0, 0)
    if not is_folder and (is_several or (target.is_folder and not copies_folder)):
        why = "several sources" if is_several else "a name that ends with a slash"
        got = "nothing" if entry is None else f"a {entry.kind}"
        raise ConfigError(
            f"{target.shown}: expected a folder for {why}, got {got};"
            f" nothing was copied; make the folder first, or choose another target"
        )
    return entry


def _planned(
    source: Place, entry: Entry, target: Place, found: Entry | None, given: set[str]
) -> PlannedCopy:
    final, existing = target, found
    name = source.parts[-1] if source.parts else ""
    is_content = source.is_content or name in ("", "..")
    if found is not None and found.kind is Kind.FOLDER and not is_content:
        final = target.joined(name)
        existing = _entry(final)
    _require_apart(source, entry, final, given)
    if existing is not None and existing.kind is not entry.kind:
        raise ConflictError(
            f"{final.shown}: expected a free name or a {entry.kind}, got a {existing.kind};"
            " nothing was changed; choose another target, or remove what has the name"
        )
    return PlannedCopy(source, final, entry, existing)


def _require_apart(source: Place, entry: Entry, final: Place, given: set[str]) -> None:
    """Refuse a copy onto or into the source, and a second copy to one name."""
    one, other = source.address, final.address
    if one == other:
        raise ConflictError(f"{source.shown} and {final.shown} are the same; nothing was copied")
    if entry.kind is Kind.FOLDER and other.startswith(f"{one.rstrip('/')}/"):
        raise ConflictError(
            f"{final.shown}: a folder cannot be copied into itself, {source.shown}; nothing was"
            " copied; choose another target"
        )
    if other in given:
        raise ConflictError(
            f"{final.shown} was made from another source of this call; {source.shown} was not"
            " copied; copy it in a call of its own"
        )
    given.add(other)


def _entry(place: Place) -> Entry | None:
    try:
        return place.tree.stat(place.parts)
    except NotFoundError:
        return None
