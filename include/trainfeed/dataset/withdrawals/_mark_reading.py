"""Reads the marks of withdrawn generations; a damaged mark is a withdrawal, too."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder, generation_name, parse_generation
from trainfeed.dataset.withdrawals._withdrawal import Withdrawal
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.paths import listed, read_plain

__all__ = ["MARK_BYTES", "lifted_path", "lifted_withdrawals", "withdrawal_of", "withdrawals"]

# A reason has at most 500 characters; a longer file is no mark that trainfeed has written.
MARK_BYTES: Final = 64 << 10

_MARK: Final = re.compile(r"(g[0-9]{4,})\.withdrawn")
# Marks of earlier releases do not name the decision.
_LIFTED: Final = re.compile(r"(g[0-9]{4,})\.restored-[0-9a-f]{16}(?:-([0-9a-f]{16}))?")


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
            found.append(replace(mark, lifted_by=match[2] or ""))
    return sorted(found, key=lambda each: (each.at, each.digest))


def lifted_path(folder: DatasetFolder, mark: Withdrawal, by: str) -> Path:
    """The name that a mark gets when its withdrawal is taken back; no two marks have the same."""
    name = f"{generation_name(mark.generation)}.restored-{mark.digest[:16]}-{by}"
    return folder.interval(mark.interval) / name


def _read(folder: DatasetFolder, interval: str, generation: int, path: Path) -> Withdrawal:
    data: bytes | None = None
    try:
        data = read_plain(path, follow=False, max_bytes=MARK_BYTES)
        return _parse(data, path, (folder.name, interval, generation))
    except (FormatError, KeyError, TypeError, ValueError, WindowError) as error:
        why = f"{path.name} is damaged, or was made by hand: {error}"
        # What cannot be read at all has a digest, too, so that the mark can be named.
        digest = hashlib.sha256(str(path).encode() if data is None else data).hexdigest()
        place = (folder.name, interval, generation)
        return Withdrawal(*place, "", "", "", "", damage=why, digest=digest)


def _parse(data: bytes, path: Path, place: tuple[str, str, int]) -> Withdrawal:
    canonical_json.require_intact(data, path=str(path))
    digest = hashlib.sha256(data).hexdigest()
    found = Withdrawal.from_json(canonical_json.loads(data, path=str(path)), digest)
    if (found.dataset, found.interval, found.generation) != place:
        raise ValueError(f"the mark is that of {found.name}")
    return found


def _completed(folder: DatasetFolder, mark: Withdrawal) -> Withdrawal:
    """Return a damaged mark with the facts of its generation's manifest, if that is intact."""
    # Not at the top: pydantic reads manifests, and few commands meet a damaged mark.
    from trainfeed.dataset.manifest import Manifest

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
