"""Repairs a damaged manifest: by a witness, from a backup, or by making the version again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from trainfeed.core import canonical_json, faults
from trainfeed.errors import FormatError, NotFoundError, Outcome, StorageError, TrainFeedError
from trainfeed.files import listed, read_plain
from trainfeed.files.stores import posix
from trainfeed.files.stores.posix import map_errors
from trainfeed.pipeline.plans import Plan, earlier_plans
from trainfeed.upkeep.repair.damage import Effort, Finding, FindingKind
from trainfeed.upkeep.repair.files import stands_in_the_way, throw_out
from trainfeed.upkeep.repair.rebuilding import (
    RepairOrder,
    RepairPlace,
    rebuild_all,
    require_same_code,
)
from trainfeed.versions import DatasetFolder, Manifest
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST, generation_name
from trainfeed.versions.publication import write_manifest_file
from trainfeed.versions.tag_files import tag_history, tag_names
from trainfeed.versions.training_marks import launched_job

# --- What else knows the digest of a version's manifest: its own files, jobs, tags, and manifests

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


# --- Repairs a damaged manifest: by a witness, from a backup, or by making the whole version again


@dataclass(frozen=True)
class ManifestOutcome:
    """What became of a damaged manifest; the attributes are those of ``FileOutcome`` and report."""

    outcome: Literal["repaired", "not repaired"]
    how: str
    effort: Effort = field(default_factory=Effort)
    offers: tuple[str, ...] = ()


def repair_manifest(order: RepairOrder, place: RepairPlace) -> ManifestOutcome:
    """Put both manifest files of a version back, if their bytes can be proved.

    Args:
        order: The version, and where its files may come from.
        place: Where to work.

    Raises:
        TrainFeedError: Something failed that another call may not meet.
    """
    state = manifest_state(order.folder, order.interval, order.generation)
    if state.proved:
        _put_back(order, place, _read(order.path))
        return ManifestOutcome("repaired", "a training or a later version names its digest")
    if order.backup is not None:
        with suppress(FormatError, StorageError):
            _, digest = Manifest.read(order.backup)
            if state.accepts(digest):
                _put_back(order, place, _read(order.backup))
                return ManifestOutcome("repaired", f"copied from {order.backup}")
    return _again(order, state, place)


def _again(order: RepairOrder, state: ManifestState, place: RepairPlace) -> ManifestOutcome:
    effort, reasons = Effort(), []
    for plan in _plans_of(order):
        try:
            require_same_code(order.spec, order.folder, plan)
            done = rebuild_all(order.spec, order.folder, plan, place)
        except TrainFeedError as error:
            if error.outcome is not Outcome.FAIL:
                raise
            reasons.append(f"plan {plan.plan_id}: {error}")
            continue
        effort += done.effort
        data = _with_libraries(done.staged, plan)
        if state.accepts(hashlib.sha256(data).hexdigest()):
            _put_back(order, place, data)
            return ManifestOutcome("repaired", "made again from its plan", effort)
        reasons.append(f"plan {plan.plan_id} leads to {_why_not(state)}")
    nothing = f"{order.folder.plans(order.interval)} has no plan of this generation"
    return ManifestOutcome("not repaired", "; ".join(reasons) or nothing, effort, order.offers())


def _why_not(state: ManifestState) -> str:
    if state.accepts_any:
        return "a manifest with another digest"
    return "a manifest, but nothing that is left names the digest of the published one"


def _plans_of(order: RepairOrder) -> list[Plan]:
    found = earlier_plans(order.folder, order.interval)
    return [plan for plan in found if plan.generation == order.generation]


def _with_libraries(staged: Path, plan: Plan) -> bytes:
    """Return the manifest that was made, with the libraries of the plan in place of today's."""
    data = read_plain(staged / MANIFEST, follow=False, max_bytes=canonical_json.MAX_BYTES)
    manifest = Manifest.from_bytes(data)
    return manifest.model_copy(update={"libraries": plan.libraries}).to_bytes()


def _read(path: Path) -> bytes:
    return read_plain(path / MANIFEST, follow=False, max_bytes=canonical_json.MAX_BYTES)


def _put_back(order: RepairOrder, place: RepairPlace, data: bytes) -> None:
    """Swap both files in; a kill between them leaves a version that is refused, as before."""
    path, staged = order.path, place.staging / "manifest"
    posix.make_public_dir(staged)
    write_manifest_file(staged, data)
    for name in (MANIFEST, MANIFEST_DIGEST):
        if stands_in_the_way(path / name):
            throw_out(order.folder, path, name)
    faults.point("repair.before_manifest")
    with map_errors(path):
        (staged / MANIFEST).replace(path / MANIFEST)
        faults.point("repair.between_manifests")
        (staged / MANIFEST_DIGEST).replace(path / MANIFEST_DIGEST)
    posix.sync_dir(path)
