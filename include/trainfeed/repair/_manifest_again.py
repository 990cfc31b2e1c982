"""Repairs a damaged manifest: by a witness, from a backup, or by making the whole version again."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainfeed import canonical_json, faults
from trainfeed.dataset import Manifest
from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST
from trainfeed.dataset.publication import write_manifest_file
from trainfeed.errors import FormatError, Outcome, StorageError, TrainFeedError
from trainfeed.paths import read_plain
from trainfeed.pipeline.plans import Plan, earlier_plans
from trainfeed.repair._manifest_witnesses import ManifestState, manifest_state
from trainfeed.repair._rebuilt import rebuild_all
from trainfeed.repair._repair_order import RepairOrder
from trainfeed.repair._repair_place import RepairPlace
from trainfeed.repair._repair_report import Effort
from trainfeed.repair._same_recipe import require_same_code
from trainfeed.repair._swap import stands_in_the_way, throw_out
from trainfeed.storage import posix
from trainfeed.storage.posix import map_errors

__all__ = ["ManifestOutcome", "repair_manifest"]


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
