"""The plan of one interval: its inputs, their pieces, and the shards.

The plan file is canonical JSON, written once, before any source is read, under a name that two runs
of one interval share. Every later stage reads the file and never plans again.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.order import shard_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import make_folders, read_plain
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plans._planned import (
    Planned,
    PlannedFile,
    PlannedInput,
    PlannedRange,
    PlannedShard,
    PlannedUpload,
    PlanPart,
)
from trainfeed.pipeline.plans._references import PlannedReference, read_statistics
from trainfeed.storage import posix

__all__ = [
    "Plan",
    "Planned",
    "PlannedFile",
    "PlannedInput",
    "PlannedRange",
    "PlannedShard",
    "earlier_plans",
    "load_plan",
    "save_plan",
]

logger = logging.getLogger(__name__)


# Keys that were added later. They are left out where they do not apply, so that the bytes of other
# plans stay the same.
_OPTIONAL: Final = frozenset({"marker", "empty_because", "documents", "uploads", "references"})


class Plan(PlanPart):
    """Everything that the stages of one build must agree on.

    Attributes:
        rebuild: The reason of a rebuild, or None.
        fingerprint_of: The values whose digest is ``fingerprint``.
        inputs: Source string → planned input.
        ranges: Landing files, or pieces of log files, in order of source and offset.
        ingest: Indices into ``ranges``, one list per task.
        preprocess: Indices into ``ranges``, one list per task and spill file.
        convert: Shards, one list per task.
        shards: Number of shards per split; its keys are the splits, ``late`` included.
        quality: The gates of the specification.
        documents: Name → SHA-256 of every file that the version gets from the data set's folder;
            not in the file if there is none.
        gaps: Ranges that are known to be lost, each with the reason for accepting it.
        marker: Name of the file that marked the folder of logs as complete, or None.
        empty_because: Source string → why nothing is read of it. If any source has records to
            read, the mapping is empty and not in the file.
        uploads: Uploads whose labels are joined, in order of arrival; not in the file if there are
            none.
        references: Versions of earlier intervals that gates compare with, the newest interval
            first; not in the file if there are none.
    """

    format: int
    dataset: str
    interval: dict[str, str]
    plan_id: str
    generation: Annotated[int, Field(ge=1)]
    supersedes: dict[str, Any] | None
    rebuild: str | None
    fingerprint: str
    fingerprint_of: dict[str, Any]
    inputs: dict[str, Planned]
    ranges: list[PlannedRange]
    ingest: list[list[int]]
    preprocess: list[list[int]]
    convert: list[list[PlannedShard]]
    shards: dict[str, Annotated[int, Field(ge=1)]]
    quality: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    code: dict[str, Any]
    lookups: dict[str, str]
    libraries: dict[str, str]
    fields: list[dict[str, Any]] = Field(alias="schema")
    marker: str | None = None
    empty_because: dict[str, str] = Field(default_factory=dict)
    documents: dict[str, str] = Field(default_factory=dict)
    uploads: list[PlannedUpload] = Field(default_factory=list)
    references: list[PlannedReference] = Field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        """Source strings, sorted by their UTF-8 bytes; source indices are indices into this."""
        return sorted(self.inputs, key=str.encode)

    @property
    def splits(self) -> list[str]:
        """Names of the splits in name order."""
        return sorted(self.shards)

    def shard_name(self, shard: PlannedShard) -> str:
        """Return the file name of a shard."""
        return shard_name(self.dataset, shard.split, shard.index, self.shards[shard.split])

    def all_shards(self) -> list[PlannedShard]:
        """Return every shard, in split and shard order."""
        return [
            PlannedShard(split=split, index=index)
            for split in self.splits
            for index in range(self.shards[split])
        ]

    def ref(self) -> PlanRef:
        """Return the reference by which later stages find this plan."""
        return PlanRef(self.dataset, self.interval["name"], self.plan_id)

    def to_bytes(self) -> bytes:
        """Return the canonical JSON; keys that do not apply are left out."""
        value = self.model_dump(by_alias=True)
        return canonical_json.dumps(
            {key: each for key, each in value.items() if key not in _OPTIONAL or each}
        )

    def sha256(self) -> str:
        """Return the digest of the plan file, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


def load_plan(folder: DatasetFolder, ref: PlanRef) -> Plan:
    """Read the plan that ``ref`` names.

    Raises:
        NotFoundError: The plan is gone; the run has to be started again.
        FormatError: The file is no plan, or one of another version of trainfeed.
        StorageError: The publication root refused or failed.
    """
    path = folder.plan(ref.interval, ref.plan_id)
    try:
        return _parse(_read(path), path)
    except NotFoundError as error:
        raise NotFoundError(
            f"plan {path} is missing; nothing was changed; run the build again"
        ) from error


def earlier_plans(folder: DatasetFolder, interval: str) -> list[Plan]:
    """Return the plans of an interval that earlier runs have written, in order of their names.

    A plan that cannot be read, perhaps written by a newer version of trainfeed, is left out with a
    warning in the log.

    Raises:
        StorageError: The publication root refused or failed.
    """
    plans = []
    for plan_id in folder.plan_ids(interval):
        path = folder.plan(interval, plan_id)
        try:
            plans.append(_parse(_read(path), path))
        except FormatError as error:
            logger.warning("what %s saw is not compared with what is there: %s", path, error)
    return plans


def save_plan(folder: DatasetFolder, plan: Plan, *, joins: bool = False) -> Plan:
    """Write the plan file, or adopt the plan that already has the name.

    A plan of the same name has the same fingerprint, hence the same inputs, code and specification.
    If it differs in anything else (library versions, gates), an unfinished run of another
    deployment wrote it, and the new plan replaces it. The tasks of the other run notice that and
    fail with CodeChangedError. A plan that differs in its references alone is adopted, as long as
    they can be opened: between the two runs, earlier intervals were published or built again.

    Args:
        folder: The data set below the publication root.
        plan: The plan.
        joins: Whether a plan is adopted, too, that differs in the reason of its rebuild alone: two
            runs that build the same generation for different reasons so end with one of them.

    Returns:
        The plan that every stage will read.

    Raises:
        StorageError: The publication root refused or failed. No plan was changed.
    """
    path = folder.plan(plan.interval["name"], plan.plan_id)
    with posix.map_errors(path.parent):
        make_folders(path.parent)
    data = plan.to_bytes()
    if not posix.create_exclusive(path, data) and not _is_same(
        folder, _read(path), plan, joins=joins
    ):
        posix.replace_file(path, data)
    return _parse(_read(path), path)


def _is_same(folder: DatasetFolder, data: bytes, plan: Plan, *, joins: bool) -> bool:
    """Whether a plan file has the content of ``plan``, but for references that are usable.

    With ``joins``, the reason of the rebuild may be another one, too.
    """
    if data == plan.to_bytes():
        return True
    try:
        found = Plan.model_validate(canonical_json.loads(data, path=plan.plan_id))
    except (FormatError, ValidationError):
        return False
    update: dict[str, Any] = {"references": plan.references}
    if joins:
        update |= {"rebuild": plan.rebuild, "supersedes": plan.supersedes}
    alike = found.model_copy(update=update).to_bytes() == plan.to_bytes()
    reads = read_statistics(found.quality)
    return alike and all(each.is_usable(folder, statistics=reads) for each in found.references)


def _read(path: Path) -> bytes:
    return read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES)


def _parse(data: bytes, path: Path) -> Plan:
    try:
        return Plan.model_validate(canonical_json.loads(data, path=str(path)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise FormatError(f"expected a plan: {place}: {first['msg']}", path=str(path)) from error
