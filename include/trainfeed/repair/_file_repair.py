"""Repairs the damaged files of a version whose manifest is intact."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainfeed.dataset import Version
from trainfeed.errors import FormatError, Outcome, TrainFeedError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.repair._copies import Copies
from trainfeed.repair._finding import MADE_AGAIN, Finding, FindingKind
from trainfeed.repair._other_bytes import other_bytes
from trainfeed.repair._rebuilt import Rebuilt, makes, rebuild
from trainfeed.repair._repair_order import RepairOrder
from trainfeed.repair._repair_place import RepairPlace
from trainfeed.repair._repair_report import Effort, FileOutcome
from trainfeed.repair._same_recipe import require_same_code
from trainfeed.repair._swap import restore_mode, stands_in_the_way, swap_in, throw_out

__all__ = ["FileRepair"]

logger = logging.getLogger(__name__)


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
