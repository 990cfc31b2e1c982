"""The verdict of ``check`` about a plan: the work file from which ``publish`` makes the manifest.

A verdict has the digest of its plan and holds only for that plan: the gates of a plan may change
under the same plan id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from trainfeed import canonical_json
from trainfeed.dataset import Ledger
from trainfeed.dataset.manifest import ShardEntry
from trainfeed.dataset.waivers import Applied
from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.gates import GateResult
from trainfeed.pipeline.labels import JoinAccount
from trainfeed.pipeline.version._shard_writer import shard_entry

__all__ = ["CheckedShard", "LateCounts", "QuarantineCounts", "Verdict"]


@dataclass(frozen=True)
class QuarantineCounts:
    """Number of records in quarantine, by reason."""

    reasons: Mapping[str, int]

    @property
    def records(self) -> int:
        """Number of records of all reasons."""
        return sum(self.reasons.values())

    def to_json(self) -> JsonObject:
        """Return the counts as the manifest has them."""
        return {"records": self.records, "reasons": dict(self.reasons)}


@dataclass(frozen=True)
class LateCounts:
    """Records that are stamped outside of the interval, over all sources.

    Attributes:
        policy: Topic → policy for late records.
        late: Number of records stamped before the interval.
        future: Number of records stamped at its end or later.
        max_lateness_ms: The largest distance of a stamp before the interval, in milliseconds.
        refused: Number of records that the policy refuses.
        unstamped: Number of records without a stamp.
        ahead: Number of records refused because they are stamped too long after the interval.
    """

    policy: Mapping[str, str]
    late: int
    future: int
    max_lateness_ms: int
    refused: int
    unstamped: int = 0
    ahead: int = 0

    def to_json(self) -> JsonObject:
        """Return the counts as the manifest has them."""
        # Optional keys, left out where 0: they were added after the format.
        optional = {"unstamped": self.unstamped, "ahead": self.ahead}
        return {
            "policy": dict(self.policy),
            "late": self.late,
            "future": self.future,
            "max_lateness_ms": self.max_lateness_ms,
            "refused": self.refused,
            **{name: count for name, count in optional.items() if count},
        }


@dataclass(frozen=True)
class CheckedShard:
    """A shard with its split, and its entry for the manifest."""

    split: str
    entry: ShardEntry

    def to_json(self) -> JsonObject:
        """Return the shard as JSON for the work file."""
        return {"split": self.split, **self.entry.model_dump()}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> CheckedShard:
        """Read the JSON of ``to_json``."""
        entry = {name: each for name, each in value.items() if name != "split"}
        return cls(str(value["split"]), shard_entry(entry))


@dataclass(frozen=True)
class Verdict:
    """The results of ``check``.

    Attributes:
        plan_sha256: Digest of the plan.
        ledger: The account of all records.
        quarantine: The records in quarantine.
        filtered: Reason → number of filtered records.
        late: Records that are stamped outside of the interval.
        shards: All shards, in split and shard order.
        statistics: Statistics of the samples as JSON, by split.
        gates: Every gate with its measured value.
        waivers: The waivers by which failed gates pass, as the manifest has them.
        joined: The join with the labels of uploads; None for a data set without uploads.
        schema_changes: Changes of the schema since the version of the interval before, as JSON.
        shard_skew: Skew of the shards, by samples and by bytes.
    """

    plan_sha256: str
    ledger: Ledger
    quarantine: QuarantineCounts
    filtered: Mapping[str, int]
    late: LateCounts
    shards: Sequence[CheckedShard]
    statistics: Mapping[str, Mapping[str, object]]
    gates: Sequence[GateResult]
    waivers: Sequence[Applied] = ()
    joined: JoinAccount | None = None
    schema_changes: Sequence[JsonObject] = ()
    shard_skew: Mapping[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the work file: canonical JSON."""
        return canonical_json.dumps(
            {
                "plan_sha256": self.plan_sha256,
                "ledger": self.ledger.to_json(),
                "quarantine": self.quarantine.to_json(),
                "filtered": dict(self.filtered),
                "late": self.late.to_json(),
                "shards": [shard.to_json() for shard in self.shards],
                "statistics": dict(self.statistics),
                "gates": [gate.to_json() for gate in self.gates],
                "waivers": [waiver.to_json() for waiver in self.waivers],
                **({} if self.joined is None else {"joined": self.joined.to_json()}),
                "schema_changes": list(self.schema_changes),
                "shard_skew": dict(self.shard_skew),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str) -> Verdict:
        """Read the work file.

        Args:
            data: Content of the file.
            path: Path or URI of the file, for messages.

        Raises:
            FormatError: The file is no verdict.
        """
        value = canonical_json.loads(data, path=path)
        try:
            return cls(
                plan_sha256=value["plan_sha256"],
                ledger=Ledger.from_json(value["ledger"]),
                quarantine=QuarantineCounts(_counts(value["quarantine"]["reasons"])),
                filtered=_counts(value["filtered"]),
                late=LateCounts(**value["late"]),
                shards=[CheckedShard.from_json(shard) for shard in value["shards"]],
                statistics=dict(value["statistics"]),
                gates=[GateResult.from_json(gate) for gate in value["gates"]],
                waivers=[Applied.from_json(waiver) for waiver in value.get("waivers", [])],
                joined=JoinAccount.from_json(value["joined"]) if "joined" in value else None,
                schema_changes=list(value.get("schema_changes", ())),
                shard_skew=dict(value.get("shard_skew", {})),
            )
        except (AttributeError, KeyError, TypeError, ValueError, FormatError) as error:
            raise FormatError(
                f"expected the verdict of check, got something else: {error!r}; nothing was"
                " published; build the interval again (in Airflow: clear the task check)",
                path=path,
            ) from error


def _counts(value: object) -> dict[str, int]:
    counts = dict(cast("Mapping[str, int]", value))
    if not all(type(count) is int for count in counts.values()):
        raise TypeError(f"expected counts, got {counts!r}")
    return counts
