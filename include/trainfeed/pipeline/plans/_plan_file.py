"""The plan of one interval: its inputs, their pieces, and the shards.

The plan file is written once, before any source is read, under a name that two runs of one interval
share. Every later stage reads the file and never plans again. It is the canonical JSON of the plan,
sealed; ``Plan.sha256`` is that of the JSON without the seal. A plan says several things twice, and
every reader compares them: a file that was changed and sealed again is refused if it contradicts
itself, such as pieces that leave a part of an input out.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, ValidationError

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import plan_id_of
from trainfeed.dataset.order import shard_name
from trainfeed.errors import FormatError, NotFoundError
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
from trainfeed.reading_rules import ReadingRules
from trainfeed.records import ONCE_UNSEALED, RecordFile

__all__ = [
    "PLANS",
    "MadeBy",
    "Plan",
    "Planned",
    "PlannedFile",
    "PlannedInput",
    "PlannedRange",
    "PlannedShard",
    "earlier_plans",
    "load_plan",
    "plan_of_version",
]

logger = logging.getLogger(__name__)


# Keys that were added later. They are left out where they do not apply, so that the bytes of other
# plans stay the same.
_OPTIONAL: Final = frozenset(
    {
        "marker",
        "passed_over",
        "empty_because",
        "documents",
        "uploads",
        "references",
        "made_by",
        "acknowledges",
    }
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
        passed_over: Name → reason of every entry of the folder of logs that is not read; not in
            the file if there is none. It is no part of the fingerprint.
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
    passed_over: dict[str, str] = Field(default_factory=dict)
    empty_because: dict[str, str] = Field(default_factory=dict)
    documents: dict[str, str] = Field(default_factory=dict)
    uploads: list[PlannedUpload] = Field(default_factory=list)
    references: list[PlannedReference] = Field(default_factory=list)
    made_by: MadeBy | None = None
    acknowledges: list[str] = Field(default_factory=list)

    @property
    def rules(self) -> ReadingRules:
        """The reading rules of the version; without a number they are the first ones."""
        return ReadingRules(self.fingerprint_of.get("reading_rules", ReadingRules.GUESSED))

    @property
    def sources(self) -> list[str]:
        """Source strings, sorted by their UTF-8 bytes; source indices are indices into this."""
        return sorted(self.inputs, key=str.encode)

    @property
    def splits(self) -> list[str]:
        """Names of the splits in name order."""
        return sorted(self.shards)

    @property
    def interval_name(self) -> str:
        """Name of the interval."""
        return self.interval["name"]

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

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file; keys that do not apply are left out."""
        value = self.model_dump(by_alias=True)
        return {key: each for key, each in value.items() if key not in _OPTIONAL or each}

    def to_bytes(self) -> bytes:
        """Return the canonical JSON, without the seal of the file."""
        return canonical_json.dumps(self.to_json())

    def sha256(self) -> str:
        """Return the digest of the canonical JSON, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def cut_sha256(self) -> str:
        """Return the digest of the fingerprint, and of pieces and tasks of all inputs, in hex."""
        cut = self.model_dump(include={"fingerprint", "ranges", "preprocess"})
        return canonical_json.sha256_of(cut)


def _from_json(value: Any) -> Plan:
    try:
        plan = Plan.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise FormatError(f"{place}: {first['msg']}") from error
    try:
        _ = plan.rules
    except ValueError as error:
        raise FormatError(f"reading_rules: {error}; a newer trainfeed made the plan") from error
    if (line := next(_contradictions(plan), None)) is not None:
        raise FormatError(line)
    return plan


def _contradictions(plan: Plan) -> Iterator[str]:
    """Yield one line for each part of a plan that does not agree with the rest."""
    values = plan.fingerprint_of
    documents, uploads = values.get("documents", {}), values.get("uploads", [])
    pairs = {
        "fingerprint": (canonical_json.sha256_of(values), plan.fingerprint),
        "plan_id": (plan_id_of(plan.fingerprint, plan.generation), plan.plan_id),
        "format": (values["format"], plan.format),
        "dataset": (values["dataset"], plan.dataset),
        "interval": (values["interval"] | {"name": plan.interval_name}, plan.interval),
        "code": (values["code"], plan.code["digest"]),
        "lookups": (values["lookups"], plan.lookups),
        "documents": (documents, plan.documents),
        "schema": (values["spec"]["schema"], plan.fields),
        "uploads": (uploads, [[upload.kind, upload.sha256] for upload in plan.uploads]),
        "sources": (sorted(values["inputs"], key=str.encode), plan.sources),
    }
    for name, (wanted, found) in pairs.items():
        if wanted != found:
            yield f"{name}: expected {wanted!r}, as the rest of the plan has it, got {found!r}"
    # 2024-03-01, 2024-03-01T05 or 2024-03-01T0510, by the schedule.
    if not plan.interval["start"].replace(":", "").startswith(plan.interval_name):
        yield f"interval: expected the name of {plan.interval['start']}, got {plan.interval_name}"
    for source, planned in plan.inputs.items():
        if (wanted := values["inputs"][source]) != (found := planned.fingerprint()):
            yield f"inputs of {source}: expected {wanted!r}, as in fingerprint_of, got {found!r}"
    yield from _cut_wrongly(plan)
    for gap in plan.gaps:
        read = plan.inputs.get(gap["source"])  # a file may be gone
        if read is not None and max(gap["start"], read.start) < min(gap["end"], read.end):
            yield f"gaps: expected what is not read, got {gap!r}, which meets {read!r}"
    ranges: Any = list(range(len(plan.ranges)))
    shards: Any = [_key_of(shard) for shard in plan.all_shards()]
    tasks: dict[str, tuple[Any, Any]] = {
        "ingest": (chain(*plan.ingest), ranges),
        "preprocess": (chain(*plan.preprocess), ranges),
        "convert": (map(_key_of, chain(*plan.convert)), shards),
    }
    for name, (given, wanted) in tasks.items():
        if sorted(given) != wanted:
            yield f"{name}: expected every range or shard in one task, and no other"


def _cut_wrongly(plan: Plan) -> Iterator[str]:
    """Yield where the ranges are not each input from its start to its end, in order of sources."""
    pieces = iter(plan.ranges)
    for source in plan.sources:
        planned = plan.inputs[source]
        position = planned.start
        if planned.unit == "bytes" and position != 0:
            yield f"inputs of {source}: expected a file from its first byte, got {position}"
        while position < planned.end:
            piece = next(pieces, None)
            # What cannot be cut is one range.
            ends = range(position + 1, planned.end + 1) if planned.is_cut else (planned.end,)
            if piece is None or (piece.source, piece.start) != (source, position):
                yield f"ranges: expected one of {source} that starts at {position}, got {piece!r}"
                return
            if piece.end not in ends:
                yield f"ranges: expected an end in {source} up to {planned.end}, got {piece!r}"
                return
            position = piece.end
        if position != planned.end:
            yield f"inputs of {source}: expected an end from {planned.start} on, got {planned.end}"
    if (piece := next(pieces, None)) is not None:
        yield f"ranges: expected no further range, got {piece!r}"


def _key_of(shard: PlannedShard) -> tuple[str, int]:
    return shard.split, shard.index


PLANS: Final = RecordFile(
    Plan,
    "a plan",
    "nothing was changed; build the interval again (in Airflow: clear the run from plan on), which"
    " writes the file again",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["plan"],
    follow=True,
    to_json=Plan.to_json,
    from_json=_from_json,
)


def _read(folder: DatasetFolder, interval: str, plan_id: str) -> Plan | None:
    path = folder.plan(interval, plan_id)
    return PLANS.read(path, dataset=folder.name, interval_name=interval, plan_id=plan_id)


def load_plan(folder: DatasetFolder, ref: PlanRef) -> Plan:
    """Read the plan that ``ref`` names.

    Raises:
        NotFoundError: The plan is gone; the run has to be started again.
        FormatError: The file is damaged, is the plan of another path, contradicts itself, or is of
            another version of trainfeed.
        StorageError: The publication root refused or failed.
    """
    plan = _read(folder, ref.interval, ref.plan_id)
    if plan is None:
        raise NotFoundError(
            f"plan {folder.plan(ref.interval, ref.plan_id)} is missing; nothing was changed; run"
            " the build again"
        )
    return plan


def plan_of_version(folder: DatasetFolder, interval: str, plan_id: str) -> Plan | None:
    """Return the plan of a published version; None, with a line in the log, without a usable one.

    A version does not need its plan any more, so a damaged one is as good as a removed one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    try:
        return _read(folder, interval, plan_id)
    except FormatError as error:
        logger.warning("the plan of a published version counts as removed: %s", error)
        return None


def earlier_plans(folder: DatasetFolder, interval: str) -> list[Plan]:
    """Return the plans of an interval that earlier runs have written, in order of their names.

    A plan that cannot be read, perhaps written by a newer version of trainfeed, is left out with a
    warning in the log.

    Raises:
        StorageError: The publication root refused or failed.
    """
    plans = []
    for plan_id in folder.plan_ids(interval):
        try:
            plans.append(_read(folder, interval, plan_id))
        except FormatError as error:
            path = folder.plan(interval, plan_id)
            logger.warning("what %s saw is not compared with what is there: %s", path, error)
    return [plan for plan in plans if plan is not None]
