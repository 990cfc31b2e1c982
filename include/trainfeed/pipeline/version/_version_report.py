"""The report of a published version for pages: small JSON that needs no access to its files.

The report of a version with thousands of files, fields or reasons is as small as that of others: it
has the first entries of each kind, and their total number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from trainfeed.dataset import DatasetFolder, Manifest, Version
from trainfeed.dataset.interval_notes import told_passed_over
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.gates import Counts, FieldFacts, GateResult, told
from trainfeed.pipeline.plans import unit_of_input
from trainfeed.pipeline.quarantine import Reason, plain, quarantine_of_version, turned_down
from trainfeed.pipeline.version._totals import total_statistics

__all__ = ["version_report"]

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
    counts = _counts(manifest, gates, statistics)
    return {
        "version": _identity(version),
        "counts": counts.to_json(),
        "splits": {name: split.samples for name, split in manifest.splits.items()},
        "reasons": [reason.to_json() for reason in _reasons(version)],
        "filtered": _first(manifest.filtered, _MOST_REASONS),
        "gates": [told(gate, counts) for gate in gates],
        "waivers": manifest.waivers[:_MOST_GATES],
        "late": manifest.late,
        "sources": list(islice(map(_source, *_items(manifest)), _MOST_SOURCES)),
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


def _counts(
    manifest: Manifest, gates: Sequence[GateResult], statistics: Mapping[str, Mapping[str, object]]
) -> Counts:
    return Counts(
        read=sum(leaf["read"]["records"] for leaf in manifest.ledger.values()),
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


def _items(manifest: Manifest) -> tuple[list[str], list[Mapping[str, Any]], list[Any]]:
    names = list(manifest.inputs)
    leaves = [manifest.ledger.get(name, {}) for name in names]
    return names, [manifest.inputs[name] for name in names], leaves


def _source(name: str, planned: Mapping[str, Any], leaf: Mapping[str, Any]) -> dict[str, Any]:
    read = leaf.get("read", {})
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
