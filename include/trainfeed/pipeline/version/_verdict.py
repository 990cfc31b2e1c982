"""The verdict of ``check`` about a plan: the work file from which ``publish`` makes the manifest.

A verdict has the digest of its plan and holds only for that plan: the gates of a plan may change
under the same plan id. It is sealed, and its counts are compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from trainfeed import canonical_json
from trainfeed.dataset import Ledger
from trainfeed.dataset.manifest import ShardEntry
from trainfeed.dataset.waive import Applied
from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.gates import GateResult
from trainfeed.pipeline.labels import JoinAccount
from trainfeed.pipeline.version._shard_writer import shard_entry

__all__ = ["CheckedShard", "LateCounts", "QuarantineCounts", "Verdict", "filtered_reasons"]


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
        dataset: Name of the data set.
        interval: Name of the interval.
        plan_id: Name of the plan.
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

    dataset: str
    interval: str
    plan_id: str
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
        """Return the work file: canonical JSON that ends with its own digest."""
        value = canonical_json.dumps(
            {
                "dataset": self.dataset,
                "interval": self.interval,
                "plan_id": self.plan_id,
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
        return canonical_json.seal(value.removesuffix(b"}"))

    def contradictions(self) -> list[str]:
        """Return one line for each count that does not agree with the ledger."""
        samples = sum(leaf.valid.samples for leaf in self.ledger.values())
        quarantined = sum(leaf.quarantined.records for leaf in self.ledger.values())
        pairs = {
            "samples of all shards": (samples, sum(each.entry.samples for each in self.shards)),
            "records in quarantine": (quarantined, self.quarantine.records),
            "filtered records": (filtered_reasons(self.ledger), dict(self.filtered)),
        }
        lines = [
            f"{what}: expected {wanted!r}, as the ledger has it, got {found!r}"
            for what, (wanted, found) in pairs.items()
            if wanted != found
        ]
        return [*self.ledger.imbalances(), *lines]

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str) -> Verdict:
        """Read the work file.

        Args:
            data: Content of the file.
            path: Path or URI of the file, for messages.

        Raises:
            FormatError: The file was changed, is no verdict, or contradicts itself.
        """
        try:
            canonical_json.require_intact(data, path=path)
            value = canonical_json.loads(data, path=path)
            verdict = cls(
                dataset=value["dataset"],
                interval=value["interval"],
                plan_id=value["plan_id"],
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
                schema_changes=[dict(change) for change in value.get("schema_changes", ())],
                shard_skew=_ratios(value.get("shard_skew", {})),
            )
            if lines := verdict.contradictions():
                raise FormatError("; ".join(lines))  # noqa: TRY301
        except (AttributeError, KeyError, TypeError, ValueError, FormatError) as error:
            why = error.args[0] if isinstance(error, FormatError) else repr(error)
            raise FormatError(
                f"expected the verdict of check, sealed and without a contradiction: {why}; nothing"
                " was published; build the interval again (in Airflow: clear the task check)",
                path=path,
            ) from error
        return verdict


def filtered_reasons(ledger: Ledger) -> dict[str, int]:
    """Return reason → number of filtered records, over all sources."""
    reasons: dict[str, int] = {}
    for source in ledger.values():
        for reason, leaf in source.filtered.items():
            reasons[reason] = reasons.get(reason, 0) + leaf.records
    return reasons


def _ratios(value: object) -> dict[str, float]:
    ratios = dict(cast("Mapping[str, float]", value))
    if not all(type(ratio) is float for ratio in ratios.values()):
        raise TypeError(f"expected ratios, got {ratios!r}")
    return ratios


def _counts(value: object) -> dict[str, int]:
    counts = dict(cast("Mapping[str, int]", value))
    if not all(type(count) is int for count in counts.values()):
        raise TypeError(f"expected counts, got {counts!r}")
    return counts
