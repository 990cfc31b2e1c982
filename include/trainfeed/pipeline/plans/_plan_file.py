"""The plan of one interval: its inputs, their pieces, and the shards.

The plan file is canonical JSON, written once, before any source is read, under a name that two runs
of one interval share. Every later stage reads the file and never plans again.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, ValidationError

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.order import shard_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import read_plain
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
from trainfeed.pipeline.plans._references import PlannedReference

__all__ = [
    "MadeBy",
    "Plan",
    "Planned",
    "PlannedFile",
    "PlannedInput",
    "PlannedRange",
    "PlannedShard",
    "earlier_plans",
    "load_plan",
    "parse_plan",
    "read_bytes",
]

logger = logging.getLogger(__name__)


# Keys that were added later. They are left out where they do not apply, so that the bytes of other
# plans stay the same.
_OPTIONAL: Final = frozenset(
    {"marker", "empty_because", "documents", "uploads", "references", "made_by", "acknowledges"}
)
# The rule for outdated versions, or a replay of quarantined records.
MadeBy: TypeAlias = Literal["outdated", "replay"]


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
        made_by: What made the plan; None, and not in the file, for a plain build.
        acknowledges: Digests of the withdrawals of the interval that were there when a person gave
            the reason of this build; not in the file if there are none.
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
    made_by: MadeBy | None = None
    acknowledges: list[str] = Field(default_factory=list)

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

    def cut_sha256(self) -> str:
        """Return the digest of the pieces of all inputs, and of their tasks, in hex."""
        return canonical_json.sha256_of(self.model_dump(include={"ranges", "preprocess"}))


def load_plan(folder: DatasetFolder, ref: PlanRef) -> Plan:
    """Read the plan that ``ref`` names.

    Raises:
        NotFoundError: The plan is gone; the run has to be started again.
        FormatError: The file is no plan, or one of another version of trainfeed.
        StorageError: The publication root refused or failed.
    """
    path = folder.plan(ref.interval, ref.plan_id)
    try:
        return parse_plan(read_bytes(path), path)
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
            plans.append(parse_plan(read_bytes(path), path))
        except FormatError as error:
            logger.warning("what %s saw is not compared with what is there: %s", path, error)
    return plans


def read_bytes(path: Path) -> bytes:
    """Return the content of a plan file."""
    return read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES)


def parse_plan(data: bytes, path: Path) -> Plan:
    """Return the plan in a file's content; ``FormatError`` if there is none."""
    try:
        return Plan.model_validate(canonical_json.loads(data, path=str(path)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise FormatError(f"expected a plan: {place}: {first['msg']}", path=str(path)) from error
