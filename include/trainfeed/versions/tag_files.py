"""Tags as files: each change of a tag is a numbered file that is never changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from trainfeed.core import canonical_json, faults
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import parse_range
from trainfeed.core.version_names import check_version_name
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    TrainFeedError,
)
from trainfeed.files import listed_folder
from trainfeed.files.records import RecordFile, record_of
from trainfeed.specification import did_you_mean
from trainfeed.versions.layout import DatasetFolder, check_name, generation_name, is_name
from trainfeed.versions.skip import AcceptedHole, Skip

# --- A change of a tag: the exact versions that the tag names from then on, and who decided it

Kind = Literal["tag", "untag"]


@dataclass(frozen=True)
class TaggedVersion:
    """One version that a tag names.

    Attributes:
        interval: Name of its interval.
        generation: Number of its generation.
        manifest_sha256: SHA-256 of its manifest, in hex.
        fingerprint: Its fingerprint, in hex.
    """

    interval: str
    generation: int
    manifest_sha256: str
    fingerprint: str

    @property
    def name(self) -> str:
        """``2013-01-01/g0001``."""
        return f"{self.interval}/{generation_name(self.generation)}"

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> TaggedVersion:
        """Read the JSON of ``to_json``.

        Raises:
            TypeError: A value has another type.
            ValueError: The list has another length, or a value is not valid.
            ConfigError: The interval is no name.
        """
        interval, generation, manifest, fingerprint = value
        if type(generation) is not int or generation < 1:
            raise TypeError(f"expected the number of a generation, got {generation!r}")
        for each in (interval, manifest, fingerprint):
            if not isinstance(each, str):
                raise TypeError(f"expected text, got {each!r}")
        return cls(check_name(interval), generation, manifest, fingerprint)

    def to_json(self) -> list[Any]:
        """Return the entry in the file."""
        return [self.interval, self.generation, self.manifest_sha256, self.fingerprint]


@dataclass(frozen=True)
class Tag:
    """One change of a tag, and what the tag names since.

    Attributes:
        tag: Name of the tag.
        number: Number of the change, from 1.
        kind: ``tag``, or ``untag``: from then on there is no tag of this name.
        range: The range that was tagged, in the forms of ``parse_range``.
        versions: The versions, in order of time.
        skipped: Intervals of the range that the data set left out by decision.
        missing: Intervals of the range without a version, which this change leaves out.
        decision: Who changed the tag, when and why.
        accepted: Holes of the range between versions, which a person had accepted before.
        dataset: Name of the data set; None in a file of before, and before it is written.
    """

    tag: str
    number: int
    kind: Kind
    range: str
    versions: tuple[TaggedVersion, ...]
    skipped: tuple[Skip, ...]
    missing: tuple[str, ...]
    decision: Decision
    accepted: tuple[AcceptedHole, ...] = ()
    dataset: str | None = field(default=None, compare=False, repr=False)

    @cached_property
    def generations(self) -> Mapping[str, int]:
        """Name of each interval → number of its generation."""
        return {version.interval: version.generation for version in self.versions}

    @property
    def name(self) -> str:
        """``prod#3``: names this change also after later ones."""
        return f"{self.tag}#{self.number}"

    @property
    def told(self) -> str:
        """Who changed the tag, when and why; for messages."""
        return f"{self.decision.by} on {self.decision.at}: {self.decision.why}"

    @property
    def left_out(self) -> tuple[Skip, ...]:
        """The intervals of the range without a version, in order, each with the reason."""
        why = f"no version when it was tagged {self.tag} by {self.told}"
        gaps = [Skip(name, why, self.decision.at, None) for name in self.missing]
        return tuple(sorted([*self.skipped, *gaps], key=lambda skip: skip.interval))

    def names_the_same(self, other: Tag) -> bool:
        """Return whether two changes give the tag the same meaning."""
        names = ("kind", "range", "versions", "skipped", "missing", "accepted")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tag:
        """Read the JSON of ``to_json``; keys that later versions add are ignored.

        Raises:
            KeyError: A value is missing.
            TypeError: A value has another type.
            ValueError: A value is not valid.
            ConfigError: A name or the range is not valid.
        """
        if not isinstance(value["tag"], str):
            raise TypeError(f"tag: expected text, got {value['tag']!r}")
        if type(value["number"]) is not int:
            raise TypeError(f"number: expected a number, got {value['number']!r}")
        if value["kind"] not in get_args(Kind):
            raise ValueError(f"kind: got {value['kind']!r}")
        parse_range(value["range"])
        versions = tuple(map(TaggedVersion.from_json, value["versions"]))
        skipped = tuple(record_of(Skip, each) for each in value["skipped"])
        missing = tuple(parse_range(each).text for each in value["missing"])
        accepted = tuple(record_of(AcceptedHole, each) for each in value.get("accepted", ()))
        return cls(
            value["tag"],
            value["number"],
            value["kind"],
            value["range"],
            versions,
            skipped,
            missing,
            record_of(Decision, value),
            accepted,
            value.get("dataset"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        return {
            "dataset": self.dataset,
            "tag": self.tag,
            "number": self.number,
            "kind": self.kind,
            "range": self.range,
            "versions": [version.to_json() for version in self.versions],
            "skipped": list(map(_skip_json, self.skipped)),
            "missing": list(self.missing),
            **({"accepted": [hole.to_json() for hole in self.accepted]} if self.accepted else {}),
            **self.decision.to_json(),
        }


def _skip_json(skip: Skip) -> dict[str, Any]:
    # Members that came later are left out where they are not set, so the bytes stay the same.
    value = {name: each for name, each in vars(skip).items() if name != "dataset"}
    return {name: each for name, each in value.items() if each is not None or name == "until"}


# --- The changes of a tag as files: numbered, created exclusively, and never changed

# A number is used for ever, also by a file that was moved aside under a name that begins with it,
# but not by the unfinished file of a killed try.
_NUMBERED: Final = re.compile(r"([0-9]{4,8})\.(?!.*\.tmp$).+")
_FILE: Final = RecordFile(
    Tag,
    "a change of a tag",
    "nothing of the tag was read or changed; bring the file back from a backup, or tag again: a new"
    " change takes its place",
    # A tag of 100,000 versions has about 20 MB.
    max_bytes=canonical_json.MAX_BYTES,
    from_json=Tag.from_json,
)


def tag_names(folder: DatasetFolder) -> list[str]:
    """Return the names of all tags that a data set has or had, sorted.

    A folder that somebody made by hand may have a name that no tag can have; see ``listed_tag``.

    Raises:
        FormatError: Something else than a folder is in the place of the tags.
        StorageError: The publication root refused or failed.
    """
    return sorted(path.name for path in listed_folder(folder.tags) if is_name(path.name))


def current_tag(folder: DatasetFolder, tag: str) -> Tag | None:
    """Return the newest change of a tag, or None while the data set has none of this name.

    A tag that was removed is a change of the kind ``untag``.

    Raises:
        ConfigError: No tag may have that name.
        FormatError: The file of the newest change is damaged.
        StorageError: The publication root refused or failed.
    """
    numbers = _numbers(folder, tag)
    return _read(folder, tag, numbers[-1]) if numbers else None


def listed_tag(folder: DatasetFolder, tag: str) -> Tag | None:
    """Return the newest change of a tag that ``tag_names`` has listed; see ``current_tag``.

    Raises:
        FormatError: The file of the newest change is damaged, or no tag may have that name.
        StorageError: The publication root refused or failed.
    """
    try:
        return current_tag(folder, tag)
    except ConfigError as error:
        raise FormatError(
            f"{error}; nothing of it was read or changed; move it out of the folder of tags",
            path=str(folder.tags / tag),
        ) from error


def last_change(folder: DatasetFolder, tag: str) -> tuple[int, Tag | None]:
    """Return the largest number that a tag has used, 0 if none, and its change.

    The change is None if there is none, or if its file is damaged or gone: then a new one may take
    its place, with the next number.

    Raises:
        ConfigError: No tag may have that name.
        StorageError: The publication root refused or failed.
    """
    numbers = _numbers(folder, tag)
    if not numbers:
        return 0, None
    try:
        return numbers[-1], _read(folder, tag, numbers[-1])
    except FormatError:
        return numbers[-1], None


def require_tag(folder: DatasetFolder, tag: str, number: int | None = None) -> Tag:
    """Return a tag as it is now, or as a change made it.

    Args:
        folder: The data set.
        tag: Name of the tag.
        number: Number of the change; None for the newest.

    Raises:
        ConfigError: No tag may have that name.
        NotFoundError: There is no such tag or change, or the tag was removed.
        FormatError: The file is damaged.
        StorageError: The publication root refused or failed.
    """
    numbers = _numbers(folder, tag)
    if not numbers:
        raise _unknown(folder, tag)
    if number is not None and number not in numbers:
        raise NotFoundError(
            f"expected change {number} of tag {folder.name}@{tag}, it has {numbers[0]} to"
            f" {numbers[-1]}; look at them: trainfeed tags {folder.name} {tag} --history"
        )
    found = _read(folder, tag, number or numbers[-1])
    if found.kind == "untag":
        raise NotFoundError(
            f"tag {folder.name}@{tag} was removed by {found.told}; nothing was read; look at its"
            f" history: trainfeed tags {folder.name} {tag} --history; give it again: trainfeed tag"
            f" {folder.name} {found.range} {tag} --why WHY"
        )
    return found


def tag_history(
    folder: DatasetFolder, tag: str, on_damage: Callable[[int, FormatError], object] | None = None
) -> list[Tag]:
    """Return all changes of a tag, the oldest first.

    Args:
        folder: The data set.
        tag: Name of the tag.
        on_damage: Called with number and error of a damaged change, which is left out; None raises.

    Raises:
        ConfigError: No tag may have that name.
        FormatError: A file is damaged, and ``on_damage`` is None; or something else than a folder
            is in the place of the tag.
        StorageError: The publication root refused or failed.
    """
    found = []
    for number in _numbers(folder, tag):
        try:
            found.append(_read(folder, tag, number))
        except FormatError as error:
            if on_damage is None:
                raise
            on_damage(number, error)
    return found


def change_of_request(folder: DatasetFolder, tag: str, request: str) -> Tag | None:
    """Return the change that an earlier attempt at a request has made; damaged files are none.

    Raises:
        ConfigError: No tag may have that name.
        StorageError: The publication root refused or failed.
    """
    for number in _numbers(folder, tag):
        with suppress(FormatError):
            found = _read(folder, tag, number)
            if found.decision.request == request:
                return found
    return None


def write_change(folder: DatasetFolder, tag: Tag) -> None:
    """Write a change of a tag, unless another one has its number.

    Raises:
        ConflictError: Another person was faster; the message has who and why. Nothing was written.
        StorageError: The publication root refused or failed.
    """
    path = _path(folder, tag.tag, tag.number)
    faults.point("tags.before_change")
    is_ours = _FILE.write_once(path, replace(tag, dataset=folder.name))
    faults.point("tags.after_change")
    _FILE.confirm(path.parent, tag.number)
    if not is_ours:
        first = _read(folder, tag.tag, tag.number)
        raise ConflictError(
            f"{path}: tag {folder.name}@{tag.tag} was changed meanwhile by {first.told}; this"
            f" change was not made; look at it: trainfeed tags {folder.name} {tag.tag}"
        )


def confirm_changes(folder: DatasetFolder, tag: str) -> None:
    """Confirm the newest change, which an earlier process may have written and not confirmed.

    Raises:
        FormatError: ``LAST.json`` of the tag is damaged.
        StorageError: The publication root refused or failed.
    """
    if numbers := _numbers(folder, tag):
        _FILE.confirm(folder.tag(tag), numbers[-1])


def _numbers(folder: DatasetFolder, tag: str) -> range:
    """Return the numbers that a tag has used, also those of files that are gone."""
    check_version_name(tag, what="tag")
    matches = (_NUMBERED.fullmatch(path.name) for path in listed_folder(folder.tag(tag)))
    last = _FILE.confirmed(folder.tag(tag))
    return range(1, max([last, *(int(match[1]) for match in matches if match)]) + 1)


def _path(folder: DatasetFolder, tag: str, number: int) -> Path:
    return folder.tag(tag) / f"{number:04d}.json"


def _read(folder: DatasetFolder, tag: str, number: int) -> Tag:
    path = _path(folder, tag, number)
    what = f"change {number} of tag {folder.name}@{tag}"
    file = replace(_FILE, what=what)
    if (found := file.read(path, dataset=folder.name, tag=tag, number=number)) is None:
        raise FormatError(f"expected {what}: it is gone; {file.remedy}", path=str(path))
    return found


def _unknown(folder: DatasetFolder, tag: str) -> NotFoundError:
    names = tag_names(folder)
    hint = did_you_mean(tag, names) if names else "it has none"
    return NotFoundError(
        f"data set {folder.name!r} has no tag {tag!r} in {folder.tags}; {hint}; tags of data were"
        f" looked up, not aliases of models (trainfeed models ls); give the tag: trainfeed tag"
        f" {folder.name} RANGE {tag} --why WHY"
    )


# --- Which versions are tagged: for withdrawals and retention


@dataclass(frozen=True)
class TagProblem:
    """A tag that cannot be read, or was not changed.

    Attributes:
        tag: Name of the tag; "" if the tags cannot be listed.
        error: Why, and what to do.
    """

    tag: str
    error: TrainFeedError

    @property
    def is_damage(self) -> bool:
        """Whether a file is damaged."""
        return isinstance(self.error, FormatError)

    def to_json(self) -> dict[str, str]:
        """Return the JSON that commands print."""
        return {"tag": self.tag, "error": type(self.error).__name__, "message": str(self.error)}


class NamingTags(NamedTuple):
    """The tags that name a version now.

    Attributes:
        names: Their names, sorted.
        problems: Tags that cannot be read: whether they name the version is not known.
    """

    names: tuple[str, ...]
    problems: tuple[TagProblem, ...]


def current_tags(folder: DatasetFolder) -> Iterator[Tag]:
    """Yield the tags that a data set has now, by name.

    Raises:
        FormatError: A tag is damaged, or a folder among the tags is none.
        StorageError: The publication root refused or failed.
    """
    for name in tag_names(folder):
        tag = listed_tag(folder, name)
        if tag is not None and tag.kind == "tag":
            yield tag


def tags_naming(folder: DatasetFolder, interval: str, generation: int) -> NamingTags:
    """Return the tags that name a version now; a tag that cannot be read hides no other.

    Raises:
        StorageError: The publication root refused or failed.
    """
    names, problems = [], []
    for name in tag_names(folder):
        try:
            tag = listed_tag(folder, name)
        except (AccessDeniedError, FormatError) as error:
            problems.append(TagProblem(name, error))
            continue
        # A change that removes the tag has no generations.
        if tag is not None and tag.generations.get(interval) == generation:
            names.append(name)
    return NamingTags(tuple(names), tuple(problems))


def tagged_versions(folder: DatasetFolder) -> frozenset[tuple[str, int]]:
    """Return interval and generation of every version that a tag names now.

    Raises:
        FormatError: A tag is damaged: any version may be one of its; remove none.
        StorageError: The publication root refused or failed; remove none.
    """
    return frozenset(pair for tag in current_tags(folder) for pair in tag.generations.items())
