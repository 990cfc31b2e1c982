"""What else knows the digest of a version's manifest: its own files, jobs, tags, and manifests.

A manifest has the digests of all other files, and nothing in the version proves the manifest but
the file beside it. Trainings, tags and later versions name the versions that they use by that
digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST, generation_name
from trainfeed.dataset.tag_files import tag_history, tag_names
from trainfeed.dataset.training_marks import launched_job
from trainfeed.errors import FormatError, NotFoundError, StorageError
from trainfeed.paths import listed, read_plain
from trainfeed.repair._finding import Finding, FindingKind

__all__ = ["ManifestState", "manifest_state"]

_DIGEST_CHARS: Final = 64


class ManifestState:
    """What is left of the manifest of a version, and which digests it may have.

    Args:
        path: Folder of the version.
        witnesses: The digests by which jobs, tags and other versions name the version.
    """

    def __init__(self, path: Path, witnesses: frozenset[str]) -> None:
        data, text = _bytes(path / MANIFEST), _bytes(path / MANIFEST_DIGEST)
        self.actual = None if data is None else hashlib.sha256(data).hexdigest()
        self.promised = _digest(text)
        self.witnesses = witnesses

    @property
    def proved(self) -> bool:
        """Whether the manifest is intact by a witness, so that only its digest is to be written."""
        return self.actual is not None and self.actual in self.witnesses

    def accepts(self, digest: str) -> bool:
        """Return whether a manifest that was made again, with this digest, is the published one."""
        return digest in self._known

    @property
    def accepts_any(self) -> bool:
        """Whether any digest of the published manifest is known."""
        return bool(self._known)

    @property
    def _known(self) -> frozenset[str]:
        own = (self.actual, self.promised)
        return self.witnesses or frozenset(each for each in own if each is not None)

    def findings(self) -> list[Finding]:
        """Return the damage of the two files."""
        found = []
        if self.actual is None:
            found.append(Finding(MANIFEST, FindingKind.MISSING, "it cannot be read"))
        if self.promised is None:
            what = "expected 64 hex digits, got none"
            found.append(Finding(MANIFEST_DIGEST, FindingKind.CHANGED, what))
        elif self.actual is not None and self.actual != self.promised:
            what = f"expected SHA-256 {self.promised}, as in {MANIFEST_DIGEST}, got {self.actual}"
            found.append(Finding(MANIFEST, FindingKind.CHANGED, what))
        return found


def manifest_state(folder: DatasetFolder, interval: str, generation: int) -> ManifestState:
    """Return what is known of the manifest of a version that cannot be opened.

    Raises:
        StorageError: A folder cannot be listed.
    """
    found = frozenset(
        {
            *_of_jobs(folder, interval, generation),
            *_of_tags(folder, interval, generation),
            *_of_versions(folder, interval, generation),
        }
    )
    return ManifestState(folder.version(interval, generation), found)


def _of_jobs(folder: DatasetFolder, interval: str, generation: int) -> Iterator[str]:
    for job in listed(folder.training_marks.parent):
        for each in listed(job):
            with suppress(FormatError, StorageError, NotFoundError, KeyError, TypeError):
                found = launched_job(each)
                for version in () if found is None else found.versions:
                    if (version["interval"], version["generation"]) == (
                        interval,
                        generation_name(generation),
                    ):
                        yield version["manifest_sha256"]


def _of_tags(folder: DatasetFolder, interval: str, generation: int) -> Iterator[str]:
    for name in tag_names(folder):
        with suppress(FormatError, StorageError):
            for change in tag_history(folder, name, _pass_over):
                for each in change.versions:
                    if (each.interval, each.generation) == (interval, generation):
                        yield each.manifest_sha256


def _pass_over(_number: int, _error: FormatError) -> None:
    """A damaged change is no witness, and silences no other change of the tag."""


def _of_versions(folder: DatasetFolder, interval: str, generation: int) -> Iterator[str]:
    for other in folder.intervals():
        for number in folder.generations(other):
            with suppress(FormatError, StorageError, NotFoundError):
                manifest, _ = Manifest.read(folder.version(other, number))
                for each in manifest.references:
                    if (each["interval"], each["generation"]) == (interval, generation):
                        yield each["manifest_sha256"]


def _bytes(path: Path) -> bytes | None:
    try:
        return read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES)
    except (FormatError, StorageError):
        return None


def _digest(text: bytes | None) -> str | None:
    found = (text or b"").strip().decode("ascii", "replace")
    is_hex = len(found) == _DIGEST_CHARS and not set(found) - set("0123456789abcdef")
    return found if is_hex else None
