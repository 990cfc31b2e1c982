"""Withdrawals: the marks by which people hide generations from readers, and what they refuse."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trainfeed.core import faults
from trainfeed.core.accounts import NOBODY, Decision
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    WithdrawnError,
)
from trainfeed.files import listed, read_plain
from trainfeed.files.records import RecordFile
from trainfeed.files.stores import posix
from trainfeed.versions.layout import DatasetFolder, generation_name, parse_generation

# --- A withdrawal: who hid a generation from readers, why, when, and what the generation was


@dataclass(frozen=True)
class Withdrawal(Decision, without=("damage", "digest", "lifted_by")):
    """The mark of a withdrawn generation; a damaged one has no texts about the decision.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        generation: Number of the generation.
        fingerprint: Fingerprint of the generation; None if neither mark nor manifest tells it.
        content_digest: Digest of its content, likewise.
        manifest_sha256: SHA-256 of its manifest, likewise.
        plan: Id of its plan, likewise.
        reason: The reason for which it was built, None if it was a plain build.
        damage: Why the mark cannot be read as it was written; None if it can. The generation is
            withdrawn all the same.
        digest: SHA-256 of the bytes of the mark, in hex; "" until it is written.
        lifted_by: Digest of the decision that took the withdrawal back; None while the mark stands.
    """

    dataset: str
    interval: str
    generation: int
    fingerprint: str | None = None
    content_digest: str | None = None
    manifest_sha256: str | None = None
    plan: str | None = None
    reason: str | None = None
    damage: str | None = field(default=None, kw_only=True)
    digest: str = field(default="", kw_only=True, compare=False)
    lifted_by: str | None = field(default=None, kw_only=True, compare=False)

    @property
    def name(self) -> str:
        """The generation: ``clicks/2024-03-01/g0001``."""
        return f"{self.dataset}/{self.interval}/{generation_name(self.generation)}"

    @property
    def told(self) -> str:
        """Which generation, who, when and why, for messages."""
        if self.damage is not None:
            state = "is withdrawn" if self.lifted_by is None else "was withdrawn and given back"
            return f"{self.name} {state}; who and why cannot be told: {self.damage}"
        return f"{self.name} was withdrawn by {self.by} at {self.at}: {self.why}"


# --- Reads the marks of withdrawn generations; a damaged mark is a withdrawal, too

# A reason has at most 500 characters; a longer file is no mark that trainfeed has written.
MARK_BYTES: Final = 64 << 10

_FILE: Final = RecordFile(
    Withdrawal,
    "the mark of the generation",
    "the generation counts as withdrawn",
    max_bytes=MARK_BYTES,
)
_MARK: Final = re.compile(r"(g[0-9]{4,})\.withdrawn")
_LIFTED: Final = re.compile(r"(g[0-9]{4,})\.restored-[0-9a-f]{16}-([0-9a-f]{16})")


def withdrawals(folder: DatasetFolder, interval: str) -> list[Withdrawal]:
    """Return the withdrawals of an interval in order of generations, those of removed ones, too.

    A mark that is damaged, or was made by hand, is completed from the manifest of its generation,
    as far as that is there and intact.

    Raises:
        StorageError: The publication root refused or failed.
    """
    names = folder.names_in(folder.interval(interval))
    numbers = sorted(parse_generation(match[1]) for match in map(_MARK.fullmatch, names) if match)
    found = (withdrawal_of(folder, interval, number) for number in numbers)
    return [each for each in found if each is not None]


def withdrawal_of(folder: DatasetFolder, interval: str, generation: int) -> Withdrawal | None:
    """Return the withdrawal of a generation, or None; see ``withdrawals``.

    Raises:
        StorageError: The publication root refused or failed.
    """
    path = folder.withdrawal_mark(interval, generation)
    try:
        found = _read(folder, interval, generation, path)
    except NotFoundError:
        return None
    return found if found.damage is None else _completed(folder, found)


def lifted_withdrawals(
    folder: DatasetFolder, interval: str, generation: int | None = None
) -> list[Withdrawal]:
    """Return the withdrawals that were taken back, the oldest first; None for all generations.

    Raises:
        StorageError: The publication root refused or failed.
    """
    found = []
    for path in listed(folder.interval(interval), "g*.restored-*"):
        match = _LIFTED.fullmatch(path.name)
        if match is not None and generation in {None, parse_generation(match[1])}:
            mark = _read(folder, interval, parse_generation(match[1]), path)
            found.append(replace(mark, lifted_by=match[2]))
    return sorted(found, key=lambda each: (each.at, each.digest))


def lifted_path(folder: DatasetFolder, mark: Withdrawal, by: str) -> Path:
    """The name that a mark gets when its withdrawal is taken back; no two marks have the same."""
    name = f"{generation_name(mark.generation)}.restored-{mark.digest[:16]}-{by}"
    return folder.interval(mark.interval) / name


def _read(folder: DatasetFolder, interval: str, generation: int, path: Path) -> Withdrawal:
    data: bytes | None = None
    place = {"dataset": folder.name, "interval": interval, "generation": generation}
    try:
        data = read_plain(path, follow=False, max_bytes=MARK_BYTES)
        found = _FILE.parse(data, path, **place)
        return replace(found, digest=hashlib.sha256(data).hexdigest())
    except FormatError as error:
        why = f"{path.name} is damaged, or was made by hand: {error}"
        # What cannot be read at all has a digest, too, so that the mark can be named.
        digest = hashlib.sha256(str(path).encode() if data is None else data).hexdigest()
        return Withdrawal(folder.name, interval, generation, **NOBODY, damage=why, digest=digest)


def _completed(folder: DatasetFolder, mark: Withdrawal) -> Withdrawal:
    """Return a damaged mark with the facts of its generation's manifest, if that is intact."""
    # Not at the top: pydantic reads manifests, and few commands meet a damaged mark.
    from trainfeed.versions.manifest import Manifest

    try:
        manifest, digest = Manifest.read(folder.version(mark.interval, mark.generation))
    except (FormatError, NotFoundError):
        return mark
    return replace(
        mark,
        fingerprint=manifest.fingerprint,
        content_digest=manifest.content_digest,
        manifest_sha256=digest,
        plan=manifest.plan,
        reason=(manifest.supersedes or {}).get("why"),
    )


# --- Writes the mark of a withdrawal, and takes it back: one step each, and that step decides


def write_withdrawal(folder: DatasetFolder, mark: Withdrawal) -> None:
    """Hide a generation from readers.

    Raises:
        ConflictError: It is withdrawn already; the message has who and why. Nothing was written.
        StorageError: The publication root refused or failed.
    """
    path = folder.withdrawal_mark(mark.interval, mark.generation)
    if not _FILE.write_once(path, mark):
        first = withdrawal_of(folder, mark.interval, mark.generation)
        raise ConflictError(
            f"{mark.name} is withdrawn already, nothing was written:"
            f" {path if first is None else first.told}"
        )
    faults.point("withdrawal.after_mark")


def lift_withdrawal(folder: DatasetFolder, mark: Withdrawal, by: str) -> None:
    """Give a generation back to readers, by renaming exactly this mark.

    Args:
        folder: The data set.
        mark: The mark, as it was read.
        by: Digest of the decision, 16 hex digits: whoever repeats it finds it carried out.

    Raises:
        ConflictError: The generation has another mark now, or none. Nothing was changed.
        StorageError: The publication root refused or failed.
    """
    path = folder.withdrawal_mark(mark.interval, mark.generation)
    now = withdrawal_of(folder, mark.interval, mark.generation)
    if now is None or now.digest != mark.digest:
        found = "it is not withdrawn any more" if now is None else now.told
        raise ConflictError(
            f"{mark.name} was changed by somebody else meanwhile: {found}; nothing was changed;"
            " look, and try again"
        )
    with posix.map_errors(path):
        path.rename(lifted_path(folder, mark, by))
        faults.point("restoration.after_rename")
        posix.sync_dir(path.parent)


# --- Finds withdrawals that speak against a publication: the same content was withdrawn before


def withdrawn_alike(
    folder: DatasetFolder,
    interval: str,
    *,
    fingerprint: str,
    content_digest: str | None = None,
    known: Collection[str] = (),
) -> list[Withdrawal]:
    """Return the withdrawals of an interval that speak against publishing a version.

    A withdrawal of which neither mark nor manifest tells the content speaks against every version.

    Args:
        folder: The data set.
        interval: Name of the interval.
        fingerprint: Fingerprint of the version.
        content_digest: Digest of its content; None before it is made.
        known: Digests of marks that a person knew when asking for the version with a reason; these
            are left out.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return [
        mark
        for mark in withdrawals(folder, interval)
        if mark.digest not in known and _is_alike(mark, fingerprint, content_digest)
    ]


def told_withdrawals(folder: DatasetFolder, interval: str) -> str:
    """Return who withdrew the generations of an interval, and why, for messages; "" if nobody did.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return _told(withdrawals(folder, interval))


def _is_alike(mark: Withdrawal, fingerprint: str, content_digest: str | None) -> bool:
    if mark.fingerprint is None or mark.content_digest is None:
        return True
    return mark.fingerprint == fingerprint or mark.content_digest == content_digest


def _told(marks: Sequence[Withdrawal]) -> str:
    return "; ".join(mark.told for mark in marks)


# --- What readers are told who ask for a withdrawn generation by its number

logger = logging.getLogger(__name__)

WITHDRAWN_POLICIES = ("fail", "warn")


def look_for_withdrawal(
    folder: DatasetFolder, interval: str, generation: int, *, withdrawn: str = "fail"
) -> None:
    """Refuse a withdrawn generation, or warn of it.

    Args:
        folder: The data set.
        interval: Name of the interval.
        generation: Number of the generation.
        withdrawn: ``fail``; or ``warn`` for what has begun with the generation and goes on.

    Raises:
        ConfigError: ``withdrawn`` is neither.
        WithdrawnError: It is withdrawn, and ``withdrawn`` is ``fail``.
        StorageError: The publication root refused or failed.
    """
    if withdrawn not in WITHDRAWN_POLICIES:
        raise ConfigError(f"expected withdrawn as fail or warn, got {withdrawn!r}")
    mark = withdrawal_of(folder, interval, generation)
    if mark is None:
        return
    if withdrawn == "warn":
        logger.warning("%s; it is read all the same, as was asked", mark.told)
        return
    raise WithdrawnError(
        f"{mark.told}; nothing was read; name no generation to read what readers get now; if the"
        f" version is right after all: trainfeed restore {mark.name} --why WHY; a job that began"
        " with it goes on with withdrawn='warn'"
    )
