"""Mirrors: versions of a root, and the decisions about them, are copied into another root.

A root is a folder or a bucket. In the mirror a version appears as it does where it is built, whole
or not at all, with the same bytes; a killed copy goes on where it was. Decisions of people (marks,
tags, skipped intervals, the schedule) become those of the source. Nothing is removed unless it is
asked for, and then only what retention has removed at the source.

``MIRROR.json`` of a data set in the mirror is a ``MirrorMark``: nobody else may decide there.
docs/authors/adr/0075-mirrors.md has the reasons.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trainfeed.core import faults
from trainfeed.core.config import RootPlace
from trainfeed.core.intervals import TimeRange, parse_range
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    NotFoundError,
    WindowError,
    WithdrawnError,
)
from trainfeed.files import is_there, make_folders, open_plain, read_plain, write_all
from trainfeed.files.records import ROOT_MARK_FILE, ROOT_MARKS, RecordFile
from trainfeed.files.stores import Location, posix
from trainfeed.files.stores.folder_manifest import digested
from trainfeed.upkeep.retention.versions import delete_files, take_back
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.decision_files import decision_files, read_decision
from trainfeed.versions.layout import (
    BUILT,
    CURRENT,
    MIRROR,
    DatasetFolder,
    check_name,
    generation_name,
    parse_generation,
)
from trainfeed.versions.lease import leased_versions
from trainfeed.versions.manifest import Manifest
from trainfeed.versions.publication import (
    StagedFile,
    commit_folder,
    confirm_folder,
    read_manifest_file,
    seal_folder,
    write_manifest_file,
)
from trainfeed.versions.root import data_sets_of, require_root
from trainfeed.versions.state_folder import decide, follow, follow_root, make_state, publish_staged
from trainfeed.versions.tag_files import current_tag, tag_names

_AT_ONCE: Final = 8
_BLOCK_BYTES: Final = 1 << 20
_LOCK_S: Final = 3600.0
_MAX_BUILT_BYTES: Final = 1 << 20
# Decisions that are changed in one go: in a bucket they are one entry of the log.
_MOST_CHANGES: Final = 2000
_MOST_CHANGED_BYTES: Final = 16 << 20
# Versions come while others are copied: so often the mirror looks for further ones.
_MOST_ROUNDS: Final = 3
_REMOVED: Final = ".removed"
_RETIRED: Final = "RETIRED.json"


@dataclass(frozen=True)
class MirrorMark:
    """Which root a data set of a mirror is copied from.

    Attributes:
        id: Id of that root.
        uri: Its address at the first copy, for messages.
    """

    id: str
    uri: str


_MARKS: Final = RecordFile(
    MirrorMark,
    "the mark of a mirror",
    "nothing was copied; compare both roots, remove the file, and mirror again",
)


@dataclass
class MirrorReport:
    """What came of one data set.

    Attributes:
        dataset: Its name.
        copied: ``<interval>/gNNNN`` that appeared in the mirror.
        num_bytes: Bytes of these versions.
        known: How many versions the mirror had before.
        decisions: How many files of decisions were changed in the mirror.
        removed: Versions that were removed from the mirror.
        in_use: Version → who reads it, so that it was not removed.
        tags_left: Tags that name versions outside of the range, so that they were left.
    """

    dataset: str
    copied: list[str] = field(default_factory=list)
    num_bytes: int = 0
    known: int = 0
    decisions: int = 0
    removed: list[str] = field(default_factory=list)
    in_use: dict[str, str] = field(default_factory=dict)
    tags_left: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MirrorEnd:
    """A root that is copied from, or to.

    Attributes:
        root: Its folder; of a root in a bucket, a private copy that follows it.
        bucket: The root in the bucket; None for a folder.
        id: Id of the root.
        unsealed: Paths in it of files of before files had seals.
    """

    root: Path
    bucket: Location | None
    id: str
    unsealed: frozenset[str] = frozenset()

    @classmethod
    def open(cls, place: RootPlace, setting: str) -> MirrorEnd:
        """Open the root of a place.

        Raises:
            RootError: It was not made one.
            StorageError: The store, or the file system, refused or failed.
        """
        root = Path(place.folder)
        bucket = None if place.bucket is None else Location.parse(place.bucket)
        if bucket is None:
            require_root(root, setting)
            if (mark := bucket_mark(root)) is not None:
                raise ConfigError(
                    f"expected a root, got {root}, which follows {mark.uri}; nothing was copied;"
                    " name that"
                )
        else:
            make_state(root, bucket, is_private=True)
            follow_root(root)
        found = ROOT_MARKS.read(root / ROOT_MARK_FILE)
        assert found is not None  # noqa: S101 - both have just been made sure of
        return cls(root, bucket, found.id, frozenset(found.unsealed or ()))

    @property
    def place(self) -> Location:
        """The root itself."""
        return self.bucket or Location.parse(str(self.root))

    def folder(self, name: str) -> DatasetFolder:
        """Return the folder of a data set, or of its copy."""
        return DatasetFolder(self.root, check_name(name))

    def open_file(self, path: Path, name: str, sha256: str) -> AbstractContextManager[BinaryIO]:
        """Open a file of a version.

        Args:
            path: The folder of the version in ``root``.
            name: The file.
            sha256: Its digest in the manifest.
        """
        if self.bucket is None:
            return open_plain(path / name, follow=False)
        place = BucketVersion(self.bucket / path.relative_to(self.root).as_posix())
        return place.file(name, sha256).open_read()


def mirror(
    source: MirrorEnd,
    target: MirrorEnd,
    *,
    dataset: str | None = None,
    asked: str | None = None,
    deletes: bool = False,
) -> Iterator[MirrorReport]:
    """Copy data sets of a root into another; the report of each comes when it is done.

    Args:
        source: The root that is copied; it is only read.
        target: The mirror.
        dataset: The data set; None for all of them.
        asked: The range whose versions and decisions are copied; None for all.
        deletes: Whether versions that retention has removed at the source go from the mirror, too;
            without it they stay readable there.

    Raises:
        ConfigError: Both are one root.
        ConflictError: The data set of the mirror is none of this source, or it has a version with
            another content; nothing of it was changed.
        NotFoundError: The source has no such data set.
        ChecksumError: A file of the source is not the one of its manifest, twice; that version is
            not in the mirror.
        StorageError: A store or file system refused or failed; the next call goes on.
    """
    if source.id == target.id:
        raise ConfigError(
            f"expected two roots, got {source.place.uri} and {target.place.uri} with one id;"
            " nothing was copied; if one is a copy of the other's files, name a new root in its"
            " place: trainfeed init"
        )
    names = data_sets_of(source.root)
    if dataset is not None and dataset not in names:
        raise NotFoundError(
            f"expected a data set of {source.place.uri}, got {dataset!r}; it has"
            f" {', '.join(names) or 'none'}; nothing was copied"
        )
    span = None if asked is None else parse_range(asked)
    for name in names if dataset is None else [dataset]:
        yield _Mirroring(source, target, name, span, deletes=deletes).run()


class _Name(NamedTuple):
    """A version of a data set."""

    interval: str
    generation: int

    @property
    def told(self) -> str:
        return f"{self.interval}/{generation_name(self.generation)}"


class _Mirroring:
    """One data set on its way.

    The decisions of the source are copied twice: before the versions all but tags, so that no
    version appears that was withdrawn before, and behind them with the tags that name them. Each
    time they are read under the lock of the mirror, so of two mirrors the later one has the later
    decisions.
    """

    def __init__(
        self,
        source: MirrorEnd,
        target: MirrorEnd,
        name: str,
        span: TimeRange | None,
        *,
        deletes: bool,
    ) -> None:
        self._source, self._target = source, target
        self._from, self._to = source.folder(name), target.folder(name)
        self._span = span
        self._deletes = deletes
        self.report = MirrorReport(name)

    def run(self) -> MirrorReport:
        """Bring the mirror up to date."""
        self._refuse_unsealed()
        self._claim()
        self._copy_decisions(with_tags=False)
        for number in range(_MOST_ROUNDS):
            lacking = list(self._lacking())
            if number == 0:
                self.report.known = sum(1 for _ in self._versions()) - len(lacking)
            for version in lacking:
                self._copy_version(version)
            self._copy_decisions(with_tags=True)
            if not lacking:
                break
        if self._deletes:
            self._remove()
        return self.report

    def _refuse_unsealed(self) -> None:
        """Refuse decisions that readers of the mirror would take for damaged."""
        paths = [path for path in decision_files(self._from) if self._is_unsealed(path)]
        if paths:
            raise ConfigError(
                f"expected decisions with a seal in {self._source.place.uri}, got {len(paths)} of"
                f" before there were seals, such as {self._from.name}/{paths[0]}; nothing of"
                f" {self._from.name} was copied; decide the same again there, then remove them"
            )

    def _is_unsealed(self, path: str) -> bool:
        return f"{self._from.name}/{path}" in self._source.unsealed

    def _claim(self) -> None:
        """Make the data set of the mirror one of this source, or find that it is one."""
        place = self._target.place / self._to.name / MIRROR
        mark = _read_mark(place)
        if mark is None:
            follow(self._to)
            if next(decision_files(self._to), None) or self._to.intervals():
                raise ConflictError(
                    f"expected no data set {self._to.name} in {self._target.place.uri}, or one that"
                    f" was mirrored there, got one without {MIRROR}; nothing was changed; mirror"
                    " into another root"
                )
            if self._target.bucket is None:
                posix.make_public_dir(self._to.path)
            mine = MirrorMark(self._source.id, self._source.place.uri)
            place.create_exclusive(_MARKS.dumps(mine))
            mark = _read_mark(place) or mine
        if mark.id != self._source.id:
            raise ConflictError(
                f"expected data set {self._to.name} of {self._target.place.uri} to be mirrored from"
                f" {self._source.place.uri}, got one from {mark.uri}; nothing was changed; mirror"
                " into another root"
            )

    # --- Versions

    def _versions(self) -> Iterator[_Name]:
        """Yield the versions of the source that readers may get, the oldest first."""
        for interval in self._from.intervals():
            if self._is_asked(interval):
                for generation in sorted(self._from.generations(interval)):
                    yield _Name(interval, generation)

    def _lacking(self) -> Iterator[_Name]:
        for version in self._versions():
            mine = self._to.version(*version)
            if not mine.is_dir():
                yield version
            elif _digest_of(mine) != (theirs := _digest_of(self._from.version(*version))):
                raise ConflictError(
                    f"{self._target.place.uri}: {self._to.name}/{version.told} has another content"
                    f" than in {self._source.place.uri}, whose manifest is {theirs[:12]}; nothing"
                    " was changed; one of them was built in its place: compare both"
                )

    def _copy_version(self, version: _Name) -> None:
        path = self._from.version(*version)
        num_bytes = 0
        try:
            data, sha256 = read_manifest_file(path, what="version")
            manifest = Manifest.from_bytes(data, path=str(path))
            num_bytes = sum(size for size, _ in manifest.file_digests().values())
            if self._source.bucket is None and self._target.bucket is not None:
                is_new = self._publish(version, path)
            else:
                name = f"mirror-{'-'.join(version.told.split('/'))}-{sha256[:16]}"
                staged = self._to.staging / name
                is_new = self._copy_and_publish(version, path, staged, data, manifest)
        except (NotFoundError, WithdrawnError):
            follow(self._from)
            if version.generation in self._from.generations(version.interval):
                raise
            # It was withdrawn or removed meanwhile; in a bucket perhaps behind its manifest.
            is_new = self._to.version(*version).is_dir()
        if is_new:
            self.report.copied.append(version.told)
            self.report.num_bytes += num_bytes

    def _copy_and_publish(
        self, version: _Name, path: Path, staged: Path, data: bytes, manifest: Manifest
    ) -> bool:
        with posix.map_errors(staged):
            make_folders(staged.parent)
        # Whoever mirrors the same version waits, and then finds it.
        with posix.file_lock(staged.with_name(f"{staged.name}.lock"), timeout_s=_LOCK_S):
            if self._to.version(*version).is_dir():
                return False
            with posix.map_errors(staged):
                make_folders(staged)
            try:
                self._copy_files(path, staged, manifest)
                write_manifest_file(staged, data)
                faults.point("mirror.before_commit")
                is_new = self._publish(version, staged)
            except (NotFoundError, WithdrawnError):
                # No later call asks for a version that was given up.
                shutil.rmtree(staged, ignore_errors=True)
                raise
            faults.point("mirror.after_commit")
            shutil.rmtree(staged, ignore_errors=True)
        return is_new

    def _copy_files(self, path: Path, staged: Path, manifest: Manifest) -> None:
        files = manifest.file_digests()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="trainfeed-mirror") as pool:
            list(pool.map(partial(self._copy_file, path, staged), files, files.values()))
        with suppress(NotFoundError):
            built = read_plain(path / BUILT, follow=False, max_bytes=_MAX_BUILT_BYTES)
            with StagedFile(staged, BUILT, mode=0o444) as file:
                write_all(file, built)  # type: ignore[arg-type]

    def _copy_file(self, path: Path, staged: Path, name: str, expected: tuple[int, str]) -> None:
        """Copy a file of a version, unless a killed call has; once more if it differs."""
        with suppress(NotFoundError):
            if digested(Location.parse(str(staged / name))) == expected:
                return
        found = self._copied(path, staged, name, expected)
        if found != expected:
            found = self._copied(path, staged, name, expected)
        if found != expected:
            raise ChecksumError(
                f"expected {expected[0]} bytes with SHA-256 {expected[1]}, got {found[0]} with"
                f" {found[1]}, twice; the version was not copied; repair it where it was built:"
                f" trainfeed repair {self._from.name}/{path.parent.name}/{path.name}",
                path=f"{self._source.place.uri}: {path.name}/{name}",
            )
        faults.point("mirror.after_file")

    def _copied(
        self, path: Path, staged: Path, name: str, expected: tuple[int, str]
    ) -> tuple[int, str]:
        """Copy a file; return its size and digest. Another one than was expected does not stay."""
        mode = 0o600 if name.startswith("quarantine/") else 0o444
        with (
            self._source.open_file(path, name, expected[1]) as source,
            StagedFile(staged, name, mode=mode) as file,
        ):
            shutil.copyfileobj(source, file, _BLOCK_BYTES)
            found = (file.num_bytes, file.sha256)
        if found != expected:
            (staged / name).unlink()
        return found

    def _publish(self, version: _Name, folder: Path) -> bool:
        """Make a version appear; return whether this call did."""
        if self._target.bucket is not None:
            require = partial(self._require_shown, version)
            done = publish_staged(self._to, folder, version.told, require, work="mirror")
            return done == "published"
        mine = self._to.version(*version)
        self._require_shown(version)
        seal_folder(folder)
        is_new = commit_folder(folder, mine)
        confirm_folder(mine, self._to.staging)
        # A hint of earlier days would keep readers from the newest generation.
        with posix.map_errors(mine):
            (mine.parent / CURRENT).unlink(missing_ok=True)
        return is_new

    def _require_shown(self, version: _Name) -> None:
        """Refuse a version that was given up at either end while it was copied."""
        follow(self._from)
        for end in (self._from, self._to):
            for error, mark in (
                (WithdrawnError, end.withdrawal_mark(*version)),
                (NotFoundError, end.removal_mark(*version)),
            ):
                if is_there(mark):
                    raise error(
                        f"expected {end.name}/{version.told} without a mark, got {mark}, which came"
                        " while the version was copied; mirror again"
                    )

    # --- Decisions

    def _copy_decisions(self, *, with_tags: bool) -> None:
        act = partial(self._decide, with_tags=with_tags)
        is_over = False
        while not is_over:
            if self._target.bucket is not None:
                changed, is_over = decide(self._to, "mirror", act)
            else:
                with posix.file_lock(self._to.path / ".mirror.lock", timeout_s=_LOCK_S):
                    changed, is_over = act()
            self.report.decisions += changed
        faults.point("mirror.after_decisions")

    def _decide(self, *, with_tags: bool) -> tuple[int, bool]:
        """Make the decisions of the mirror those of the source, as many as go at once.

        Returns:
            How many files changed, and whether none is left.
        """
        follow(self._from)
        self.report.tags_left = [] if self._span is None else list(self._tags_outside())
        wanted, present = _texts(self._from), _texts(self._to)
        changed, num_bytes = 0, 0
        for path in sorted({*wanted, *present}, key=_order):
            text = wanted.get(path)
            if text == present.get(path) or not self._follows(path, with_tags=with_tags):
                continue
            if changed == _MOST_CHANGES or num_bytes > _MOST_CHANGED_BYTES:
                return changed, False
            place = self._to.path / path
            if text is None:
                with posix.map_errors(place):
                    place.unlink(missing_ok=True)
                posix.sync_dir(place.parent)
            else:
                posix.make_public_dir(place.parent)
                posix.replace_file(place, text.encode(), is_public=True)
            changed, num_bytes = changed + 1, num_bytes + len(text or "")
            faults.point("mirror.after_decision")
        return changed, True

    def _follows(self, path: str, *, with_tags: bool) -> bool:
        """Return whether a decision is copied now."""
        room, _, rest = path.partition("/")
        named, _, name = rest.partition("/")
        if room == "tags":
            return with_tags and named not in self.report.tags_left
        if room not in {"versions", "plans", "parameters"}:
            return True
        return self._is_asked(named) and (room != "versions" or self._may_hide(named, name))

    def _may_hide(self, interval: str, name: str) -> bool:
        """Return whether a mark of an interval is copied: what stays in the mirror is readable."""
        if self._deletes:
            return True
        if name.endswith(_REMOVED):
            numbers = [parse_generation(name.removesuffix(_REMOVED))]
        else:
            numbers = [*range(1, self._to.last_generation(interval) + 1)] * (name == _RETIRED)
        return not any(self._to.has_folder(interval, each) for each in numbers)

    def _tags_outside(self) -> Iterator[str]:
        """Yield the tags that name versions outside of the range."""
        for tag in tag_names(self._from):
            found = current_tag(self._from, tag)
            if found and not all(self._is_asked(each.interval) for each in found.versions):
                yield tag

    def _is_asked(self, interval: str) -> bool:
        if self._span is None:
            return True
        try:
            named = parse_range(interval)
        except WindowError:
            return False
        return self._span.start <= named.start and named.end <= self._span.end

    # --- What retention has removed at the source

    def _remove(self) -> None:
        gone = [
            _Name(interval, generation)
            for interval in self._to.intervals()
            if self._is_asked(interval)
            for generation in range(1, self._to.last_generation(interval) + 1)
            if self._from.is_removed(interval, generation)
            and self._to.has_folder(interval, generation)
        ]
        # The newest first: readers do not get an older one while a newer one stays.
        for version in sorted(gone, key=lambda each: (each.interval, -each.generation)):
            why = leased_versions(self._to, datetime.now(UTC)).why(*version)
            if why is not None:
                self.report.in_use[version.told] = why
                show = partial(take_back, self._to, *version)
                decide(self._to, "mirror", show)
                continue
            delete_files(self._to, *version)
            self.report.removed.append(version.told)
            faults.point("mirror.after_removal")


def _order(path: str) -> tuple[bool, bool, str]:
    """Return the order of decisions: what hides versions first, and the end of a hiding last."""
    return (not path.startswith("versions/"), path.startswith("tags/"), path)


def _texts(folder: DatasetFolder) -> Mapping[str, str]:
    found = {path: read_decision(folder, path) for path in decision_files(folder)}
    return {path: text for path, text in found.items() if text is not None}


def _digest_of(path: Path) -> str:
    return read_manifest_file(path, what="version")[1]


def _read_mark(place: Location) -> MirrorMark | None:
    try:
        return _MARKS.parse(place.read_bytes(), place.uri)
    except NotFoundError:
        return None
