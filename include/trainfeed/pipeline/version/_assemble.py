"""Completes a staged version: all files beside the shards, and the manifest with their digests.

All files except BUILT.json are functions of the plan and of the shards' parts, so two attempts
write the same bytes.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime

from trainfeed.dataset import Manifest, content_digest
from trainfeed.dataset.manifest import FORMAT, FileEntry, ShardEntry, SplitEntry
from trainfeed.dataset.publication import write_manifest_file
from trainfeed.dataset.version import BUILT
from trainfeed.errors import FormatError, GateError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version._staged_documents import staged_documents
from trainfeed.pipeline.version._staged_files import (
    write_bytes,
    write_chunks,
    write_positions,
    write_quarantine,
    write_statistics,
)
from trainfeed.pipeline.version._verdict import Verdict

__all__ = ["assemble", "checked_content"]


def assemble(stage: Stage) -> None:
    """Write index, positions, quarantine, statistics, documents and manifest: the staged version.

    Raises:
        CodeChangedError: A document is not the one of the plan.
        FormatError: The verdict is damaged, or of another plan.
        GateError: This plan has not passed ``check``.
    """
    verdict = _verdict(stage)
    files = [
        write_chunks(stage),
        write_quarantine(stage),
        write_statistics(stage, verdict.statistics),
    ]
    if stage.spec.output.positions:
        files.append(write_positions(stage))
    files += staged_documents(stage)
    manifest = _manifest(stage.plan, stage, verdict, files).to_bytes()
    write_manifest_file(stage.staged, manifest)
    write_bytes(stage, BUILT, json.dumps(_built(stage), indent=2).encode())


def checked_content(stage: Stage) -> str:
    """Return the content digest of the shards that passed ``check``.

    Raises:
        FormatError: The verdict is damaged, or of another plan.
        GateError: This plan has not passed ``check``, or its verdict is missing.
    """
    return _content_digest(stage.plan, _splits(stage, _verdict(stage)))


def _verdict(stage: Stage) -> Verdict:
    if not stage.verdict_file.exists():
        raise GateError(
            f"plan {stage.plan.plan_id} has not passed check: {stage.verdict_file.uri} is missing;"
            " nothing was published; build the interval again (in Airflow: clear the task check)"
        )
    verdict = Verdict.from_bytes(stage.verdict_file.read_bytes(), path=stage.verdict_file.uri)
    plan = stage.plan
    own = [(shard.split, plan.shard_name(shard)) for shard in plan.all_shards()]
    found = (verdict.dataset, verdict.interval, verdict.plan_id)
    if found != (plan.dataset, plan.interval_name, plan.plan_id) or own != [
        (shard.split, shard.entry.name) for shard in verdict.shards
    ]:
        raise FormatError(
            f"expected the verdict about plan {plan.plan_id} of {plan.dataset}/{plan.interval_name}"
            f" and its {len(own)} shards, got that of plan {verdict.plan_id} of {verdict.dataset}/"
            f"{verdict.interval} and {len(verdict.shards)} shards; nothing was published; build the"
            " interval again (in Airflow: clear the task check)",
            path=stage.verdict_file.uri,
        )
    if verdict.plan_sha256 != stage.plan_sha256:
        raise GateError(
            f"plan {stage.plan.plan_id} was made again and has not passed check since; nothing was"
            " published; build the interval again (in Airflow: clear the task check)"
        )
    return verdict


def _manifest(plan: Plan, stage: Stage, verdict: Verdict, files: list[FileEntry]) -> Manifest:
    splits = _splits(stage, verdict)
    return Manifest.model_validate(
        {
            "format": FORMAT,
            "dataset": plan.dataset,
            "interval": {"start": plan.interval["start"], "end": plan.interval["end"]},
            "generation": plan.generation,
            "supersedes": plan.supersedes,
            "fingerprint": plan.fingerprint,
            "content_digest": _content_digest(plan, splits),
            "empty": not any(split.samples for split in splits.values()),
            "schema": plan.fields,
            "splits": splits,
            "files": sorted(files, key=lambda file: file.name),
            "sources": plan.sources,
            "inputs": {name: planned.model_dump() for name, planned in plan.inputs.items()},
            "gaps": plan.gaps,
            "empty_because": plan.empty_because,
            "passed_over": plan.passed_over,
            "late": verdict.late.to_json(),
            "ledger": verdict.ledger.to_json(),
            "quarantine": verdict.quarantine.to_json(),
            "filtered": dict(verdict.filtered),
            "gates": [gate.to_json() for gate in verdict.gates],
            "waivers": [waiver.to_json() for waiver in verdict.waivers],
            "code": plan.code,
            "lookups": plan.lookups,
            "libraries": plan.libraries,
            "plan": plan.plan_id,
            "uploads": _uploads(plan, stage, verdict),
            "references": [reference.model_dump() for reference in plan.references],
            "schema_changes": verdict.schema_changes,
            "shard_skew": dict(verdict.shard_skew),
            "reading_rules": plan.fingerprint_of.get("reading_rules", 0),
        }
    )


def _uploads(plan: Plan, stage: Stage, verdict: Verdict) -> JsonObject:
    """Return the uploads and the account of their join; empty for a data set without uploads."""
    if stage.spec.uploads is None or verdict.joined is None:
        return {}
    return {
        "join": stage.spec.uploads.join,
        "files": [upload.model_dump() for upload in plan.uploads],
        **verdict.joined.to_json(),
    }


def _content_digest(plan: Plan, splits: Mapping[str, SplitEntry]) -> str:
    digests = {
        name: [shard.records_sha256 for shard in split.shards] for name, split in splits.items()
    }
    return content_digest(plan.fields, digests)


def _splits(stage: Stage, verdict: Verdict) -> dict[str, SplitEntry]:
    shards: dict[str, list[ShardEntry]] = {name: [] for name in stage.plan.splits}
    for shard in verdict.shards:
        shards[shard.split].append(shard.entry)
    return {
        name: SplitEntry(
            millionths=stage.spec.split.millionths.get(name, 0),
            samples=sum(entry.samples for entry in entries),
            shards=entries,
        )
        for name, entries in shards.items()
    }


def _built(stage: Stage) -> JsonObject:
    # Not in the manifest, because time, host and process differ between attempts.
    path = stage.folder.plan(stage.plan.interval["name"], stage.plan.plan_id)
    planned_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    now = datetime.now(UTC)
    return {
        "uid": os.getuid(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "planned_at": planned_at.isoformat(timespec="seconds"),
        "built_at": now.isoformat(timespec="seconds"),
        "seconds": round((now - planned_at).total_seconds(), 1),
    }
