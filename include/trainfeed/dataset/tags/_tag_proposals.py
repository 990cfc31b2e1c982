"""Which versions a tag would name: those of a range that readers get now, one, or another tag's."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trainfeed.dataset.coverage import Coverage, cover, cover_named
from trainfeed.dataset.layout import DatasetFolder, is_generation, parse_generation
from trainfeed.dataset.tags._tag import Decision, Tag
from trainfeed.dataset.tags._tag_files import last_change, require_tag
from trainfeed.dataset.tags._tag_state import require_there, tagged
from trainfeed.dataset.tags._tagged_coverage import cover_tag
from trainfeed.dataset.tags._tagging import TagProposal
from trainfeed.errors import WindowIncompleteError
from trainfeed.intervals import parse_range
from trainfeed.version_names import check_version_name, split_version_name

__all__ = ["propose_tag"]

_SHOWN: Final = 10


def propose_tag(
    folder: DatasetFolder,
    asked: str,
    tag: str,
    decision: Decision,
    *,
    allow_missing: bool = False,
    verify: bool = False,
) -> TagProposal:
    """Return what a tag would name; nothing is written.

    Args:
        folder: The data set.
        asked: A range in the forms of ``parse_range``: the versions that readers get now;
            ``INTERVAL/gNNNN``: one version; ``@TAG`` or ``@TAG#3``: what a tag names, or named.
        tag: Name of the tag.
        decision: Who changes the tag, and why.
        allow_missing: Whether intervals of the range may be without a version.
        verify: Whether every file of the versions is compared with its manifest; otherwise only
            manifests are read.

    Raises:
        ConfigError: No tag may have that name.
        WindowError: ``asked`` is no range, or the schedule has no interval there.
        WindowIncompleteError: Intervals are missing, and ``allow_missing`` is false.
        NotFoundError: Nothing of the range is published, or there is no such tag or change.
        ConflictError: A version is withdrawn or removed.
        FormatError: A manifest, a file or a change of a tag is damaged.
        StorageError: The publication root refused or failed.
    """
    check_version_name(tag, what="tag")
    last, before = last_change(folder, tag)
    after = _proposed(folder, asked, tag, decision, allow_missing=allow_missing, verify=verify)
    return TagProposal(before, replace(after, number=last + 1))


def _proposed(
    folder: DatasetFolder,
    asked: str,
    tag: str,
    decision: Decision,
    *,
    allow_missing: bool,
    verify: bool,
) -> Tag:
    other = _other(folder, asked)
    found = _covered(folder, asked) if other is None else cover_tag(folder, other)
    _require(found, tag, allow_missing=allow_missing)
    if verify:
        for version in found.versions:
            version.verify()
    return Tag(
        tag,
        1,
        "tag",
        found.asked if other is None else other.range,
        tuple(map(tagged, found.versions)),
        found.skipped if other is None else other.skipped,
        found.missing if other is None else other.missing,
        decision,
        found.accepted if other is None else other.accepted,
    )


def _other(folder: DatasetFolder, asked: str) -> Tag | None:
    if not asked.startswith("@"):
        return None
    named = split_version_name(f"{folder.name}{asked}")
    return require_tag(folder, named.version or "", named.change)


def _covered(folder: DatasetFolder, asked: str) -> Coverage:
    interval, _, last = asked.rpartition("/")
    if not interval or not is_generation(last):
        return cover(folder, asked)
    parse_range(interval)
    generation = parse_generation(last)
    require_there(folder, interval, generation)
    return cover_named(folder, [interval], generation_of=lambda _: generation)


def _require(found: Coverage, tag: str, *, allow_missing: bool) -> None:
    if not found.missing or allow_missing:
        found.require("skip")
        return
    name, runs = found.folder.name, ", ".join(found.missing_runs[:_SHOWN])
    more = len(found.missing_runs) - _SHOWN
    error = WindowIncompleteError(
        f"data set {name!r} lacks {len(found.missing)} intervals of {found.asked}: {runs}"
        f"{f' and {more} more' if more > 0 else ''}; tag {name}@{tag} was not changed;"
        f" {found.remedy}; or tag what is there: trainfeed tag {name} {found.asked} {tag}"
        " --allow-missing --why WHY"
    )
    error.missing = found.missing
    raise error
