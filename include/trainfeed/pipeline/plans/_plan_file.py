"""The plan of one interval: what is read, in which pieces, into which shards.

Written once, before any source is read, as canonical JSON under a name that two runs of one
interval share. Every later stage reads it and never plans again.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from trainfeed.dataset import DatasetFolder, canonical
from trainfeed.dataset.order import shard_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import listed, make_folders, read_plain
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plans._planned import (
    Planned,
    PlannedFile,
    PlannedInput,
    PlannedRange,
    PlannedShard,
    PlanPart,
)
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


# Keys that were added later: whatever they do not apply to keeps its bytes.
_OPTIONAL: Final = frozenset({"marker", "empty_because"})
# Of a name like 0123456789abcdef-g0001.json.
_PLANS: Final = "*-g*.json"


class Plan(PlanPart):
    """Everything that the stages of one build must agree on.

    Attributes:
        rebuild: Why it was asked for although the interval may have been published.
        fingerprint_of: The values that ``fingerprint`` is the digest of.
        inputs: By source string.
        ranges: Landing files, or pieces of log files, in order of source and offset.
        ingest: Per task the indices into ``ranges``.
        preprocess: Per task, and so per spill file, the indices into ``ranges``.
        convert: Per task the shards.
        shards: Number of shards per split; its keys are the splits, ``late`` included.
        quality: The gates, as the spec has them.
        gaps: Ranges that are known to be lost, each with who allowed it why.
        marker: Name of the file that marked the folder of logs as complete; None where none did.
        empty_because: Per source why nothing is read of it; empty, and not in the file, while
            anything is read.
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

    @property
    def sources(self) -> list[str]:
        """Source strings, sorted by their UTF-8 bytes; the source index is the place in it."""
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
        """Return what stages hand to each other."""
        return PlanRef(self.dataset, self.interval["name"], self.plan_id)

    def to_bytes(self) -> bytes:
        """Return the canonical JSON; keys that do not apply are left out."""
        value = self.model_dump(by_alias=True)
        return canonical.dumps(
            {key: each for key, each in value.items() if key not in _OPTIONAL or each}
        )

    def sha256(self) -> str:
        """Return the digest of the plan file, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


def load_plan(folder: DatasetFolder, ref: PlanRef) -> Plan:
    """Read the plan that ``ref`` names.

    Raises:
        NotFoundError: The plan is gone; the run has to be started again.
        FormatError: It is no plan, or one of another version of trainfeed.
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

    One that cannot be read, as a newer version of trainfeed may have written it, is named in the
    log and left out.

    Raises:
        StorageError: The publication root refused or failed.
    """
    plans = []
    for path in listed(folder.plans(interval), _PLANS):
        try:
            plans.append(_parse(_read(path), path))
        except FormatError as error:
            logger.warning("what %s saw is not compared with what is there: %s", path, error)
    return plans


def save_plan(folder: DatasetFolder, plan: Plan) -> Plan:
    """Give the plan its name, or adopt the one that has it already.

    A plan of the same name has the same fingerprint, hence the same inputs, code and spec. When
    it differs in anything else (library versions, gates), it was left by an unfinished run under
    another deployment, and this one takes its place: its tasks notice.

    Returns:
        The plan that every stage will read.

    Raises:
        StorageError: The publication root refused or failed. No plan was changed.
    """
    path = folder.plan(plan.interval["name"], plan.plan_id)
    with posix.map_errors(path.parent):
        make_folders(path.parent)
    data = plan.to_bytes()
    if not posix.create_exclusive(path, data) and _read(path) != data:
        posix.replace_file(path, data)
    return _parse(_read(path), path)


def _read(path: Path) -> bytes:
    return read_plain(path, follow=True, max_bytes=canonical.MAX_BYTES)


def _parse(data: bytes, path: Path) -> Plan:
    try:
        return Plan.model_validate(canonical.loads(data, path=str(path)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise FormatError(f"expected a plan: {place}: {first['msg']}", path=str(path)) from error
