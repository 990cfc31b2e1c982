"""Repairs damaged files of an intact manifest: from copies or made again, swapped in by renames."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from trainfeed.core import faults
from trainfeed.errors import (
    AccessDeniedError,
    FormatError,
    NotFoundError,
    Outcome,
    StorageError,
    TrainFeedError,
)
from trainfeed.files import open_plain
from trainfeed.files.stores import posix
from trainfeed.files.stores.posix import map_errors
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.upkeep.repair.damage import (
    MADE_AGAIN,
    Effort,
    FileOutcome,
    Finding,
    FindingKind,
    mode_of,
)
from trainfeed.upkeep.repair.rebuilding import (
    Rebuilt,
    RepairOrder,
    RepairPlace,
    makes,
    other_bytes,
    rebuild,
    require_same_code,
)
from trainfeed.versions import DatasetFolder, Manifest, Version
from trainfeed.versions.publication import StagedFile, compare_file
from trainfeed.versions.version import DOCUMENTS

# --- The only steps that change a published folder; each is one rename, durable before the next


def require_changeable(path: Path) -> None:
    """Refuse a version in whose folder this account may not rename files.

    Raises:
        AccessDeniedError: The folder belongs to another account, or its mount is read-only.
    """
    if not os.access(path, os.W_OK | os.X_OK):
        raise AccessDeniedError(
            f"{path}: this account may not change files of the folder, which belongs to uid"
            f" {path.stat().st_uid}; nothing was changed; repair it as the account that builds"
        )


def age_of(path: Path) -> datetime:
    """Return the modification time of a version's folder, by which retention knows its age.

    Raises:
        NotFoundError: The version is gone.
        StorageError: The publication root refused or failed.
    """
    with map_errors(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


@contextmanager
def unchanged_age(path: Path, since: datetime) -> Iterator[None]:
    """Give a version's folder the modification time of before at the end.

    Args:
        path: The folder.
        since: That time.
    """
    try:
        yield
    finally:
        # Gone, if retention took the version meanwhile.
        with suppress(OSError):
            os.utime(path, (path.stat().st_atime, since.timestamp()))


def stands_in_the_way(path: Path) -> bool:
    """Return whether a folder is in the place of a file: no rename puts a file there."""
    return path.is_dir() and not path.is_symlink()


def swap_in(staged: Path, version: Path, name: str, expected: tuple[int, str]) -> None:
    """Rename a staged file into a version, if it has the published size and SHA-256.

    Args:
        staged: The folder of staged files.
        version: Folder of the version.
        name: The file, relative to both.
        expected: Size in bytes and SHA-256 of the manifest.

    Raises:
        FormatError: The staged file has other bytes. Nothing was changed.
        NotFoundError: The version was removed meanwhile.
        StorageError: The file system refused or failed.
    """
    for problem in compare_file(staged / name, *expected):
        raise problem
    target = version / name
    with map_errors(target):
        if target.parent != version:
            target.parent.mkdir(mode=0o755, exist_ok=True)
        faults.point("repair.before_swap")
        (staged / name).replace(target)
    faults.point("repair.after_swap")
    posix.sync_dir(target.parent)


def throw_out(folder: DatasetFolder, version: Path, name: str) -> Path | None:
    """Move a foreign file or folder of a version to ``_trash``; return where it is now.

    Returns:
        Its new path; None if another repair was faster.
    """
    place = folder.trash / uuid.uuid4().hex
    posix.make_public_dir(place)
    moved = place / Path(name).name
    faults.point("repair.before_trash")
    try:
        with map_errors(version / name):
            (version / name).rename(moved)
    except NotFoundError:
        posix.remove_tree(place)
        return None
    faults.point("repair.after_trash")
    posix.sync_dir((version / name).parent)
    return moved


def restore_mode(version: Path, name: str) -> None:
    """Give a file the permissions that it was published with.

    Raises:
        AccessDeniedError: The file belongs to another account.
    """
    path = version / name
    with map_errors(path):
        path.chmod(mode_of(name))


# --- Intact copies of a damaged file: in a backup, in another generation

logger = logging.getLogger(__name__)

_BLOCK_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Copy:
    """A file that may be a copy, and where it is, for the report."""

    path: Path
    where: str
    follow: bool = False


class Copies:
    """Finds copies of the files of one version.

    Args:
        order: The version, and where its files may come from.
        version: The version, opened.
    """

    def __init__(self, order: RepairOrder, version: Version) -> None:
        self._spec = order.spec
        self._version = version
        self._backup = order.backup
        self._expected = version.manifest.file_digests()
        self._others = _other_generations(order)

    def stage(self, name: str, staged: Path) -> str | None:
        """Copy a file into a staged folder; return where it was found, or None if nowhere."""
        for copy in self._candidates(name):
            with _opened(copy) as source:
                if source is not None and _copied(source, staged, name, self._expected[name]):
                    return copy.where
        return None

    def _candidates(self, name: str) -> Iterator[Copy]:
        # A file with a second name, or a link, may have the right bytes.
        yield Copy(self._version.path / name, "its own bytes", follow=True)
        if self._backup is not None:
            yield Copy(self._backup / name, str(self._backup / name), follow=True)
        for other, manifest in self._others:
            for theirs, digest in manifest.file_digests().items():
                if digest == self._expected[name]:
                    yield Copy(other / theirs, f"{other.name}/{theirs}")
        folder, _, last = name.rpartition("/")
        if folder == DOCUMENTS:
            for place in self._spec.documents:
                if PurePosixPath(place).name == last:
                    yield Copy(self._spec.folder / place, str(self._spec.folder / place), True)


def _other_generations(order: RepairOrder) -> list[tuple[Path, Manifest]]:
    found = []
    for number in order.folder.generations(order.interval):
        path = order.folder.version(order.interval, number)
        if number != order.generation:
            with suppress(FormatError, StorageError):
                found.append((path, Manifest.read(path)[0]))
    return found


@contextmanager
def _opened(copy: Copy) -> Iterator[BinaryIO | None]:
    """Open a copy; yield None if there is none, or none that can be opened, which is logged."""
    with ExitStack() as stack:
        try:
            source = stack.enter_context(open_plain(copy.path, follow=copy.follow))
        except NotFoundError:
            source = None
        except (FormatError, StorageError) as error:
            logger.warning("%s cannot be used for a repair: %s", copy.where, error)
            source = None
        yield source


def _copied(source: BinaryIO, staged: Path, name: str, expected: tuple[int, str]) -> bool:
    """Copy a file, and keep the copy only if it has the expected size and digest."""
    num_bytes, sha256 = expected
    target = StagedFile(staged, name, mode=mode_of(name))
    with suppress(_OtherBytesError), target as file:
        while file.num_bytes <= num_bytes and (block := _block(source)):
            file.write(block)
        if (file.num_bytes, file.sha256) != (num_bytes, sha256):
            raise _OtherBytesError
        return True
    return False


def _block(source: BinaryIO) -> bytes:
    """Return the next block; a copy that cannot be read to its end has other bytes."""
    try:
        return source.read(_BLOCK_BYTES)
    except OSError as error:
        logger.warning("a copy cannot be used for a repair: %s", error)
        raise _OtherBytesError from error


class _OtherBytesError(Exception):
    """Leaves the block of a staged file, which then is removed."""


# --- Repairs the damaged files of a version whose manifest is intact


class FileRepair:
    """The repair of the files of one version.

    Args:
        order: The version, and where its files may come from.
        version: The version, opened.
    """

    def __init__(self, order: RepairOrder, version: Version) -> None:
        self._order = order
        self._spec, self._folder = order.spec, order.folder
        self._version = version
        self._expected = version.manifest.file_digests()
        self._copies = Copies(order, version)
        self._effort = Effort()

    def planned(self, damage: Sequence[Finding]) -> tuple[FileOutcome, ...]:
        """Return what a repair would do with each finding; nothing is changed."""
        ways = {
            FindingKind.EXTRA: f"would be moved to {self._folder.trash}",
            FindingKind.MODE: "would get its permissions back",
        }
        again = self._way_to_rebuild() if any(each.kind in MADE_AGAIN for each in damage) else ""
        return tuple(FileOutcome(each, "found", ways.get(each.kind, again)) for each in damage)

    def repaired(
        self, damage: Sequence[Finding], place: RepairPlace
    ) -> tuple[list[FileOutcome], Effort, tuple[str, ...]]:
        """Repair files; return the outcome of each, what was computed, and what can be done else.

        Raises:
            TrainFeedError: Something failed that another call may not meet.
        """
        files = list(self._put_right(damage))
        lost = [each for each in damage if each.kind in MADE_AGAIN]
        copied = list(self._copied(lost, place.staging / "copies"))
        done = {each.finding.name for each in copied}
        rest = [each for each in lost if each.name not in done]
        files += [*copied, *(self._rebuilt(rest, place) if rest else [])]
        is_left = any(each.outcome != "repaired" for each in files)
        return files, self._effort, self._order.offers() if is_left else ()

    def _put_right(self, damage: Sequence[Finding]) -> Iterator[FileOutcome]:
        """Take away what is foreign, and give permissions back."""
        path = self._version.path
        for each in damage:
            if each.kind is FindingKind.EXTRA:
                moved = throw_out(self._folder, path, each.name)
                how = "another repair took it away" if moved is None else f"moved to {moved}"
                yield FileOutcome(each, "repaired", how)
            elif each.kind is FindingKind.MODE:
                yield self._restored_mode(each)

    def _restored_mode(self, finding: Finding) -> FileOutcome:
        try:
            restore_mode(self._version.path, finding.name)
        except TrainFeedError as error:
            return FileOutcome(finding, "not repaired", str(error))
        return FileOutcome(finding, "repaired", "got its permissions back")

    def _copied(self, lost: Sequence[Finding], staged: Path) -> Iterator[FileOutcome]:
        staged.mkdir(exist_ok=True)
        for each in lost:
            where = self._copies.stage(each.name, staged)
            if where is not None:
                self._swap(each, staged)
                yield FileOutcome(each, "repaired", f"copied from {where}")

    def _swap(self, finding: Finding, staged: Path) -> None:
        path, name = self._version.path, finding.name
        if stands_in_the_way(path / name):
            throw_out(self._folder, path, name)
        swap_in(staged, path, name, self._expected[name])
        logger.info("repaired %s of %s", name, self._version.name)

    def _rebuilt(self, rest: Sequence[Finding], place: RepairPlace) -> Iterator[FileOutcome]:
        """Make files by the stages of the plan; those that end with other bytes are not used."""
        try:
            plan = self._plan()
            made = [each for each in rest if makes(plan, each.name)]
            done = rebuild(
                self._spec, self._folder, plan, place, sorted(each.name for each in made)
            )
        except TrainFeedError as error:
            if error.outcome is not Outcome.FAIL:
                raise
            yield from (FileOutcome(each, "not repaired", str(error)) for each in rest)
            return
        self._effort += done.effort
        for each in rest:
            if each in made:
                yield self._proved(each, plan, done)
            else:
                what = "no stage makes it, and no copy has its digest"
                yield FileOutcome(each, "not repaired", what)

    def _proved(self, finding: Finding, plan: Plan, done: Rebuilt) -> FileOutcome:
        try:
            self._swap(finding, done.staged)
        except FormatError:
            why = other_bytes(self._version, plan, finding.name, done.records_sha256)
            return FileOutcome(finding, "not repaired", why)
        return FileOutcome(finding, "repaired", "made again from its plan")

    def _plan(self) -> Plan:
        """Return the plan of the version, if today's code is that of the plan."""
        manifest = self._version.manifest
        ref = PlanRef(self._folder.name, self._order.interval, manifest.plan)
        plan = load_plan(self._folder, ref)
        require_same_code(self._spec, self._folder, plan)
        return plan

    def _way_to_rebuild(self) -> str:
        try:
            self._plan()
        except TrainFeedError as error:
            return f"would be copied if there is an intact copy; cannot be made again: {error}"
        return "would be copied if there is an intact copy, else made again from its plan"
