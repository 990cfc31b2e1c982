"""The parts of a version: its shards, the verdict of ``check``, statistics, and its report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from trainfeed.core.canonical_json import JsonFields
from trainfeed.errors import FormatError, TrainFeedError
from trainfeed.files.records import RecordFile
from trainfeed.pipeline.gates.result import Counts, FieldFacts, GateResult, told
from trainfeed.pipeline.labels import JoinAccount
from trainfeed.pipeline.plans import unit_of_input
from trainfeed.pipeline.quarantine import Reason, plain, turned_down
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.reports import JsonObject
from trainfeed.pipeline.sorting.spill_files import RecordColumn
from trainfeed.pipeline.stage import Stage
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import Schema, Statistics, TypedCodec, frame_records
from trainfeed.specification import OutputSpec
from trainfeed.versions import DatasetFolder, Ledger, Manifest, Version
from trainfeed.versions.chunk_index import Chunk
from trainfeed.versions.interval_notes import told_passed_over
from trainfeed.versions.manifest import ShardEntry
from trainfeed.versions.publication import StagedFile
from trainfeed.versions.waive import Applied

if TYPE_CHECKING:
    from trainfeed.versions.examples import ExampleRunWriter


# --- Statistics of a published version over all its splits


def total_statistics(version: Version) -> dict[str, JsonObject]:
    """Return the statistics of every field over all splits, as JSON.

    Raises:
        ChecksumError: The file of statistics is not the published one.
        StorageError: The file cannot be read.
    """
    total = Statistics(version.schema)
    for part in version.statistics().values():
        total.merge(Statistics.from_json(version.schema, part))
    return total.to_json()


# --- Writes one shard from blocks of samples, and keeps an account of the samples and chunks

# Records are framed, hashed and counted in pieces that stay in the processor's cache. With many
# fields the pieces are larger, because then the fixed cost per field and piece counts more.
_PIECE_BYTES: Final = 1 << 20
_PIECE_BYTES_PER_FIELD: Final = 512


@dataclass(frozen=True)
class ShardPart:
    """A shard in the staging folder.

    Attributes:
        entry: Name, size and digests of its file, as the manifest will have them.
        chunks: Rows of the chunk index, without split, shard and first ordinal.
        statistics: Statistics of its samples, as JSON.
    """

    entry: ShardEntry
    chunks: Sequence[Mapping[str, int]]
    statistics: Mapping[str, object]

    def to_json(self) -> JsonObject:
        """Return the JSON for the trailer."""
        return {
            "shard": self.entry.model_dump(),
            "chunks": list(self.chunks),
            "statistics": self.statistics,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ShardPart:
        """Read the JSON of ``to_json``, from a trailer that may hold further keys.

        Raises:
            FormatError: The trailer is not that of a shard.
        """
        try:
            return cls(
                shard_entry(value["shard"]),
                list(cast("Sequence[Mapping[str, int]]", value["chunks"])),
                cast("Mapping[str, object]", value["statistics"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"expected the account of a shard in the trailer of its positions: {error};"
                " nothing was published; build the interval again (in Airflow: clear the run from"
                " convert on)"
            ) from error


def shard_entry(value: object) -> ShardEntry:
    """Read the entry of a shard's file.

    Raises:
        ValueError: ``value`` is no such entry; the message names the first wrong key.
    """
    try:
        return ShardEntry.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}") from error


class ShardWriter:
    """Writes the samples of one shard, in their order.

    Args:
        stage: The stage, for output and schema.
        file: The staged shard.
    """

    def __init__(self, stage: Stage, file: StagedFile) -> None:
        schema = Schema.from_json(stage.plan.fields)
        self._writer = _record_writer(stage.spec.output, schema, cast("BinaryIO", file))
        self._codec = TypedCodec(schema)
        self._column: RecordColumn | None = None
        if schema.is_fixed:
            self._column = RecordColumn(schema.record_dtype.itemsize)
        self._statistics = Statistics(schema)
        self._digest = hashlib.sha256()
        self._piece_bytes = max(_PIECE_BYTES, _PIECE_BYTES_PER_FIELD * len(schema.names))

    def write(self, records: pa.ChunkedArray) -> None:
        """Append records, a binary column."""
        if self._column is None:
            for chunk in records.chunks:
                self._write_each(chunk)
            return
        # ``joined`` copies: large records are in chunks of one record each.
        step = max(1, self._piece_bytes // self._column.size_bytes)
        for start in range(0, len(records), step):
            self._write_rows(self._column.joined(records.slice(start, step)))

    def close(self) -> None:
        """Write the last chunk; the owner of the file closes it."""
        self._writer.close()

    def part(self, entry: ShardEntry) -> ShardPart:
        """Return the account of the shard; call it after ``close``.

        Args:
            entry: Name, size and digests of the file.
        """
        chunks = [_chunk_json(chunk) for chunk in self._writer.chunks]
        return ShardPart(entry, chunks, self._statistics.to_json())

    @property
    def num_samples(self) -> int:
        """Number of samples written."""
        return self._writer.num_records

    @property
    def records_sha256(self) -> str:
        """SHA-256 over length (4 bytes, little-endian) and bytes of every record, in hex."""
        return self._digest.hexdigest()

    def _write_rows(self, rows: NDArray[np.void]) -> None:
        # Length and bytes of every record: the form that digest and decoder read.
        framing = frame_records(rows)
        self._digest.update(framing)
        self._statistics.update_columns(self._codec.decode_records(framing, len(rows)))
        self._writer.write_array(rows)

    def _write_each(self, records: pa.Array) -> None:
        for record in records.to_pylist():
            self._digest.update(len(record).to_bytes(4, "little"))
            self._digest.update(record)
            self._statistics.update(self._codec.decode(record))
            self._writer.write(record)


def _record_writer(
    output: OutputSpec, schema: Schema, file: BinaryIO
) -> RecordWriter | ExampleRunWriter:
    if output.format == "tfrecord":
        from trainfeed.versions.examples import ExampleRunWriter

        return ExampleRunWriter(file, schema, max_chunk_bytes=output.chunk_bytes)
    return RecordWriter(
        file,
        codec=Codec[output.codec.upper()],
        level=output.level,
        max_chunk_bytes=output.chunk_bytes,
    )


def _chunk_json(chunk: Chunk) -> dict[str, int]:
    return {
        "offset_bytes": chunk.offset_bytes,
        "stored_bytes": chunk.stored_bytes,
        "raw_bytes": chunk.raw_bytes,
        "num_records": chunk.num_records,
        "crc32": chunk.crc32,
        "codec": int(chunk.codec),
    }


# --- The verdict of ``check`` about a plan: the work file from which ``publish`` makes the manifest


@dataclass(frozen=True)
class QuarantineCounts(JsonFields, also=("records",)):
    """Number of records in quarantine, by reason."""

    reasons: Mapping[str, int]

    @property
    def records(self) -> int:
        """Number of records of all reasons."""
        return sum(self.reasons.values())


@dataclass(frozen=True)
class LateCounts(JsonFields, optional=("unstamped", "ahead")):
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
class Verdict(JsonFields, without=("statistics",), optional=("joined",)):
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


def _verdict_to_json(verdict: Verdict) -> JsonObject:
    return {
        "dataset": verdict.dataset,
        "interval": verdict.interval,
        "plan_id": verdict.plan_id,
        "plan_sha256": verdict.plan_sha256,
        "ledger": verdict.ledger.to_json(),
        "quarantine": verdict.quarantine.to_json(),
        "filtered": dict(verdict.filtered),
        "late": verdict.late.to_json(),
        "shards": [shard.to_json() for shard in verdict.shards],
        "statistics": dict(verdict.statistics),
        "gates": [gate.to_json() for gate in verdict.gates],
        "waivers": [waiver.to_json() for waiver in verdict.waivers],
        **({} if verdict.joined is None else {"joined": verdict.joined.to_json()}),
        "schema_changes": list(verdict.schema_changes),
        "shard_skew": dict(verdict.shard_skew),
    }


def _verdict_from_json(value: Any) -> Verdict:
    return Verdict(
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
        waivers=[Applied.from_json(waiver) for waiver in value["waivers"]],
        joined=JoinAccount.from_json(value["joined"]) if "joined" in value else None,
        schema_changes=[dict(change) for change in value["schema_changes"]],
        shard_skew=_ratios(value["shard_skew"]),
    )


def _require_no_contradictions(verdict: Verdict) -> None:
    if lines := verdict.contradictions():
        raise ValueError("; ".join(lines))


VERDICTS: Final = RecordFile(
    Verdict,
    "the verdict of check, sealed and without a contradiction",
    "nothing was published; build the interval again (in Airflow: clear the task check)",
    to_json=_verdict_to_json,
    from_json=_verdict_from_json,
    check=_require_no_contradictions,
)


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


# --- The report of a published version for pages: small JSON that needs no access to its files

ValueT = TypeVar("ValueT")

_MOST_SOURCES: Final = 20
_MOST_FIELDS: Final = 30
_MOST_GATES: Final = 20
_MOST_REASONS: Final = 10
_MOST_GENERATIONS: Final = 10
_STATISTICS: Final = ("count", "nulls", "min", "max", "mean", "std")


def version_report(version: Version, folder: DatasetFolder) -> JsonObject:
    """Return the report of a version for pages.

    Args:
        version: The version.
        folder: The data set, for the other generations of the interval.

    Returns:
        ``version`` (name, path, digests), ``counts``, ``splits``, ``reasons`` with examples,
        ``filtered``, ``gates`` with the counts behind them, ``waivers``, ``late``, ``sources``
        with their ranges, ``gaps``, ``generations`` of the interval with their reasons,
        ``statistics`` per field, ``totals`` (numbers of sources, fields and reasons) and
        ``command``.

    Raises:
        StorageError: The version cannot be read.
        FormatError: The version is damaged.
    """
    manifest = version.manifest
    statistics = total_statistics(version)
    gates = [GateResult.from_json(gate) for gate in manifest.gates[:_MOST_GATES]]
    counts = _record_counts(manifest, gates, statistics)
    return {
        "version": _identity(version),
        "counts": counts.to_json(),
        "splits": {name: split.samples for name, split in manifest.splits.items()},
        "reasons": [reason.to_json() for reason in _reasons(version)],
        "filtered": _first(manifest.filtered, _MOST_REASONS),
        "gates": [told(gate, counts) for gate in gates],
        "waivers": manifest.waivers[:_MOST_GATES],
        "late": manifest.late,
        "sources": [_source(manifest, name) for name in islice(manifest.inputs, _MOST_SOURCES)],
        "gaps": [str(gap) for gap in manifest.gaps[:_MOST_SOURCES]],
        "generations": _generations(folder, version),
        "statistics": _first({n: _field(f) for n, f in statistics.items()}, _MOST_FIELDS),
        "totals": {
            "sources": len(manifest.sources),
            "fields": len(statistics),
            "reasons": len(manifest.quarantine["reasons"]),
        },
        "command": _command(version) if manifest.quarantine["records"] else None,
    }


def _identity(version: Version) -> JsonObject:
    manifest = version.manifest
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    return {
        "dataset": manifest.dataset,
        "interval": version.path.parent.name,
        "generation": version.path.name,
        "start": manifest.interval.start,
        "end": manifest.interval.end,
        "path": str(version.path),
        "shards": len(shards),
        "bytes": sum(num_bytes for num_bytes, _ in manifest.file_digests().values()),
        "content_digest": manifest.content_digest,
        "fingerprint": manifest.fingerprint,
        "code": manifest.code.get("digest"),
        "plan": manifest.plan,
        "empty": manifest.empty,
        "empty_because": manifest.empty_because,
        "passed_over": told_passed_over(manifest.passed_over),
    }


def _record_counts(
    manifest: Manifest, gates: Sequence[GateResult], statistics: Mapping[str, Mapping[str, object]]
) -> Counts:
    return Counts(
        read=manifest.records_read,
        quarantined=manifest.quarantine["records"],
        samples=manifest.num_samples(),
        late=manifest.late.get("refused", 0),
        fields={
            gate.field: FieldFacts.of(statistics[gate.field])
            for gate in gates
            if gate.field is not None
        },
        filtered=sum(manifest.filtered.values()),
    )


def _reasons(version: Version) -> list[Reason]:
    counts: dict[str, int] = version.manifest.quarantine["reasons"]
    # Other accounts than the builder's may not read the records: they get the counts alone.
    with suppress(TrainFeedError):
        return turned_down(quarantine_of_version(version), counts)
    return [Reason(name, records) for name, records in _first(counts, _MOST_REASONS).items()]


def _source(manifest: Manifest, name: str) -> dict[str, Any]:
    planned = manifest.inputs[name]
    read = manifest.ledger.get(name, {}).get("read", {})
    return {
        "source": plain(name),
        "start": planned["start"],
        "end": planned["end"],
        "unit": unit_of_input(planned),
        "records": read.get("records", 0),
        "bytes": read.get("bytes", 0),
    }


def _generations(folder: DatasetFolder, version: Version) -> list[JsonObject]:
    """Return the newest generations of the interval, newest first, with their reasons."""
    interval = version.path.parent.name
    numbers = sorted(folder.generations(interval), reverse=True)[:_MOST_GENERATIONS]
    return [_generation(folder.version(interval, number), version) for number in numbers]


def _generation(path: Path, version: Version) -> JsonObject:
    found: JsonObject = {"generation": path.name, "this": path == version.path}
    try:
        manifest = version.manifest if found["this"] else Manifest.read(path)[0]
    except TrainFeedError as error:
        return {**found, "why": plain(str(error))}
    return {
        **found,
        "samples": manifest.num_samples(),
        "quarantined": manifest.quarantine["records"],
        "content": manifest.content_digest[:12],
        "why": plain(str((manifest.supersedes or {}).get("why") or "first build")),
    }


def _field(found: Mapping[str, object]) -> JsonObject:
    return {name: found.get(name) for name in _STATISTICS}


def _first(values: Mapping[str, ValueT], count: int) -> dict[str, ValueT]:
    return dict(islice(values.items(), count))


def _command(version: Version) -> str:
    name = f"{version.manifest.dataset}/{version.path.parent.name}/{version.path.name}"
    return f"trainfeed quarantine show {name}"
