"""Stage ``publish``: one rename makes the version visible, completely or not at all.

All steps up to the rename can be repeated, and so can the barrier (the sync) behind it; no later
step can turn success into failure. The steps are those of docs/authors/adr/0003: manifest, seal,
verify, commit, barrier, pointer.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.core import canonical_json, faults
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    GateError,
    NonDeterminismError,
    RetiredError,
    StorageError,
    TrainFeedError,
    WithdrawnError,
)
from trainfeed.files import read_plain
from trainfeed.files.stores import posix
from trainfeed.functions import read_document
from trainfeed.pipeline.functions.account import RecordAccount
from trainfeed.pipeline.inputs.schemas import schemas_of_version
from trainfeed.pipeline.plans import Plan, PlannedShard
from trainfeed.pipeline.quarantine_access import QUARANTINE_FILE
from trainfeed.pipeline.reports import Build, JsonObject, PublishReport, StageReport, VersionSummary
from trainfeed.pipeline.run_stage import lift_end, measured_again, recorded_end, run_stage
from trainfeed.pipeline.sorting.spill_files import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import VERDICTS, ShardPart, Verdict
from trainfeed.samples import Schema, Statistics
from trainfeed.versions import (
    DatasetFolder,
    Ledger,
    Manifest,
    SourceLedger,
    TrainingMarks,
    Version,
    content_digest,
    follow_environment,
    lift_skip,
)
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.layout import BUILT, CURRENT, CURRENT_BYTES, POSITIONS, parse_generation
from trainfeed.versions.listed_files import ListedFiles
from trainfeed.versions.manifest import (
    FORMAT,
    SOURCES,
    FileEntry,
    ShardEntry,
    SplitEntry,
)
from trainfeed.versions.publication import (
    StagedFile,
    commit_folder,
    confirm_folder,
    seal_folder,
    write_manifest_file,
)
from trainfeed.versions.retire import retirement_of
from trainfeed.versions.source_list import list_of_version
from trainfeed.versions.state_folder import decide, publish_staged
from trainfeed.versions.version import (
    CHUNKS,
    CHUNKS_SCHEMA,
    DOCUMENTS,
    POSITIONS_SCHEMA,
    STATISTICS,
)
from trainfeed.versions.withdraw import withdrawn_alike

# --- Refuses to publish what was withdrawn or retired, as far as the plan does not know of it


def require_wanted(stage: Stage) -> None:
    """Compare a staged version with the end of its interval; hold the interval's lock.

    Raises:
        ConflictError: The number was given up.
        RetiredError: The interval was retired since a plan without a reason was made.
        WithdrawnError: The same was withdrawn, before the plan was made or since.
        StorageError: The publication root refused or failed.
    """
    _require_not_retired(stage)
    manifest = Version.open(stage.staged).manifest
    interval = stage.plan.interval["name"]
    alike = withdrawn_alike(
        stage.folder,
        interval,
        fingerprint=manifest.fingerprint,
        content_digest=manifest.content_digest,
        known=stage.plan.acknowledges,
    )
    if alike:
        name = f"{stage.plan.dataset}/{interval}/{stage.version_path.name}"
        raise WithdrawnError(
            f"{name} has the content of a withdrawn version: {alike[-1].told}; nothing was"
            " published; correct the cause (records, code, lookups) and build, or take the"
            f" withdrawal back: trainfeed restore {alike[-1].name} --why WHY; to publish the same"
            f" all the same: trainfeed build {stage.plan.dataset} --interval {interval} --rebuild"
            " WHY, with a reason that is new (Airflow: parameter 'rebuild')"
        )


def _require_not_retired(stage: Stage) -> None:
    """Refuse a number that is marked, and an interval that nobody gave a reason to build again."""
    stage.published()
    interval = stage.plan.interval["name"]
    retired = None if stage.plan.rebuild else retirement_of(stage.folder, interval)
    if retired is not None:
        raise RetiredError(
            f"{stage.plan.dataset}/{retired.told}, while plan {stage.plan.plan_id} was at work;"
            " nothing was published; a build with a reason makes it again: trainfeed build"
            f" {stage.plan.dataset} --interval {interval} --rebuild 'WHY'"
        )


# --- The quarantined records of all tasks, in batches that depend on the rows alone

_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 1 << 20
_END_BYTES: Final = 4


def quarantine_batches(stage: Stage) -> Iterator[pa.Table]:
    """Yield the records in order: equal numbers of rows, at most 16,384 and about 1 MiB.

    The published bytes must not tell how the records were divided among tasks: rows of
    neighbouring tasks share a batch. Work files are read twice, because the size of a batch comes
    from the mean size of all rows.
    """
    num_rows = _rows_per_batch(stage)
    waiting = QUARANTINE_SCHEMA.empty_table()
    for table in _tables(stage):
        waiting = pa.concat_tables([waiting, table])
        while len(waiting) >= num_rows:
            yield _copied(waiting.slice(0, num_rows))
            waiting = waiting.slice(num_rows)
    if len(waiting):
        yield _copied(waiting)


def _copied(table: pa.Table) -> pa.Table:
    """Return equal rows in one chunk of their own: Arrow writes other bytes for parts of others."""
    return table.combine_chunks().take(pa.array(np.arange(len(table))))


def _tables(stage: Stage) -> Iterator[pa.Table]:
    # Groups have ranges in order, and ranges have records in order, so the files one after another
    # are sorted.
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.quarantine_file(group), QUARANTINE_SCHEMA)) as file:
            yield from file.iter_tables()


def _rows_per_batch(stage: Stage) -> int:
    """Return the rows that fit into a batch, as Arrow counts the bytes of one table of all rows."""
    rows, value_bytes, nulls = 0, 0, dict.fromkeys(QUARANTINE_SCHEMA.names, 0)
    for table in _tables(stage):
        rows += len(table)
        for name in QUARANTINE_SCHEMA.names:
            column = table[name]
            nulls[name] += column.null_count
            if _is_variable(column.type):
                value_bytes += pc.sum(pc.binary_length(column)).as_py() or 0
    if not rows:
        return 1
    row_bytes = sum(
        0 if _is_variable(field.type) else field.type.bit_width // 8 for field in QUARANTINE_SCHEMA
    )
    ends = _END_BYTES * (rows + 1) * sum(_is_variable(field.type) for field in QUARANTINE_SCHEMA)
    bitmaps = -(-rows // 8) * sum(count > 0 for count in nulls.values())
    mean_bytes = (rows * row_bytes + value_bytes + ends + bitmaps) // rows
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean_bytes))


def _is_variable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind))


# --- Copies the documents of a data set into a staged version


def staged_documents(stage: Stage) -> list[FileEntry]:
    """Write the documents of the plan; return their entries for the manifest.

    Raises:
        CodeChangedError: A document is not the one of the plan.
        StorageError: A file cannot be read or written.
    """
    return [
        _staged(stage, name, read_document(stage.spec, name, planned))
        for name, planned in stage.plan.documents.items()
    ]


def _staged(stage: Stage, name: str, data: bytes) -> FileEntry:
    path = f"{DOCUMENTS}/{name}"
    with StagedFile(stage.staged, path, mode=0o444) as file:
        file.write(data)
    return FileEntry(name=path, bytes=file.num_bytes, sha256=file.sha256)


# --- Writes the files of a staged version that follow from the parts of its shards, each by itself

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))


def write_chunks(stage: Stage) -> FileEntry:
    """Write the index of chunks, from the parts of all shards."""
    return _write_arrow(stage, CHUNKS, CHUNKS_SCHEMA, _chunks(stage))


def write_positions(stage: Stage) -> FileEntry:
    """Write the positions of all samples, from the parts of all shards."""
    return _write_arrow(stage, POSITIONS, POSITIONS_SCHEMA, _positions(stage))


def write_quarantine(stage: Stage) -> FileEntry:
    """Write the quarantined records, from the work files of ``preprocess``."""
    return _write_arrow(stage, QUARANTINE_FILE, QUARANTINE_SCHEMA, quarantine_batches(stage))


def write_statistics(stage: Stage, statistics: Mapping[str, object]) -> FileEntry:
    """Write the statistics: split → field → name and value."""
    return write_bytes(stage, STATISTICS, canonical_json.dumps(dict(statistics)))


def write_bytes(stage: Stage, name: str, data: bytes) -> FileEntry:
    """Write a file with this content, readable for every account."""
    with StagedFile(stage.staged, name, mode=0o444) as file:
        file.write(data)
    return FileEntry(name=name, bytes=file.num_bytes, sha256=file.sha256)


def _write_arrow(
    stage: Stage, name: str, schema: pa.Schema, tables: Iterator[pa.Table]
) -> FileEntry:
    mode = 0o600 if name == QUARANTINE_FILE else 0o444
    with (
        StagedFile(stage.staged, name, mode=mode) as file,
        pa.ipc.new_file(pa.PythonFile(file, mode="w"), schema, options=_OPTIONS) as writer,
    ):
        for table in tables:
            writer.write_table(table)
    return FileEntry(name=name, bytes=file.num_bytes, sha256=file.sha256)


def _positions_of_shards(stage: Stage) -> Iterator[tuple[PlannedShard, pa.Table]]:
    for shard in stage.plan.all_shards():
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            yield shard, file.read_all()


def _parts(stage: Stage) -> Iterator[tuple[PlannedShard, ShardPart]]:
    """Yield the account of every shard, without reading positions; the trailer has a digest."""
    for shard in stage.plan.all_shards():
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            yield shard, ShardPart.from_json(file.trailer)


def _chunks(stage: Stage) -> Iterator[pa.Table]:
    ordinals = dict.fromkeys(stage.plan.splits, 0)
    for shard, part in _parts(stage):
        rows = []
        for chunk in part.chunks:
            first = ordinals[shard.split]
            place = {"split": shard.split, "shard": shard.index, "first_ordinal": first}
            rows.append({**chunk, **place})
            ordinals[shard.split] += chunk["num_records"]
        yield pa.Table.from_pylist(rows, schema=CHUNKS_SCHEMA)


def _positions(stage: Stage) -> Iterator[pa.Table]:
    names = pa.array(stage.plan.splits)
    for shard, positions in _positions_of_shards(stage):
        # One dictionary for the whole file: an IPC file cannot change it between batches.
        indices = pa.array([stage.plan.splits.index(shard.split)] * len(positions), pa.int32())
        column = pa.DictionaryArray.from_arrays(indices, names)
        # Copied: behind the rows of a column that was a slice, Arrow writes bytes of other rows.
        rows = (positions[name].to_numpy() for name in ("source", "offset", "ordinal"))
        columns = [column, *(pa.array(each.copy()) for each in rows)]
        yield pa.Table.from_arrays(columns, schema=POSITIONS_SCHEMA)


def _merged_statistics(stage: Stage) -> JsonObject:
    schema = Schema.from_json(stage.plan.fields)
    merged = {split: Statistics(schema) for split in stage.plan.splits}
    for shard, part in _parts(stage):
        merged[shard.split].merge(Statistics.from_json(schema, part.statistics))
    return {split: each.to_json() for split, each in merged.items()}


def _write_merged(stage: Stage) -> FileEntry:
    return write_statistics(stage, _merged_statistics(stage))


def _write_sources(stage: Stage) -> FileEntry:
    ledgers: list[Mapping[str, SourceLedger]] = [
        {source: SourceLedger() for source in stage.plan.sources}
    ]
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.spill_file(group))) as spill:
            ledgers.append(RecordAccount.from_json(spill.trailer).ledger)
    return _write_list(stage, Ledger.total(ledgers))


def _write_list(stage: Stage, ledger: Ledger) -> FileEntry:
    """Write the inputs and the ledger of a version of many files."""
    return write_bytes(stage, SOURCES, list_of_version(_inputs(stage.plan), ledger).data)


# The name of each file → what writes it from work files alone, without a verdict of ``check``.
STAGED_WRITERS: Final[Mapping[str, Callable[[Stage], FileEntry]]] = {
    CHUNKS: write_chunks,
    POSITIONS: write_positions,
    QUARANTINE_FILE: write_quarantine,
    SOURCES: _write_sources,
    STATISTICS: _write_merged,
}


# --- Completes a staged version: all files beside the shards, and the manifest with their digests


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
    if stage.plan.file_list is not None:
        files.append(_write_list(stage, verdict.ledger))
        faults.point("publish.after_list")
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
    verdict = VERDICTS.parse(stage.verdict_file.read_bytes(), stage.verdict_file.uri)
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
    digests = [file.sha256 for file in files if file.name == SOURCES]
    place = ListedFiles(sha256=digests[0], files=len(plan.inputs)) if digests else None
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
            "sources": plan.sources if place is None else [],
            "inputs": _inputs(plan) if place is None else {},
            "gaps": plan.gaps,
            "empty_because": plan.empty_because,
            "passed_over": plan.passed_over,
            "late": verdict.late.to_json(),
            "ledger": verdict.ledger.to_json() if place is None else {},
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
            "schemas": schemas_of_version(stage),
            "source_list": place,
        }
    )


def _inputs(plan: Plan) -> dict[str, JsonObject]:
    return {name: planned.model_dump() for name, planned in plan.inputs.items()}


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


# --- Stage ``publish``: one rename makes the version visible, completely or not at all

logger = logging.getLogger(__name__)


def publish(build: Build) -> PublishReport:
    """Publish the version that passed ``check``.

    Returns:
        The facts about the version; the verdict is built, or published if it was so before.

    Raises:
        ConflictError: The generation was published from another fingerprint.
        NonDeterminismError: The generation was published from this fingerprint with other content.
        WithdrawnError: The same content was withdrawn, and the plan does not know that.
        CommitUnknownError: The file system did not confirm the commit.
        QuotaExceededError: The publication root is full.
    """
    follow_environment(build.env)
    _mark_training(build)
    done = run_stage("publish", build, _publish)
    stage = Stage.open(build)
    version = Version.open(stage.version_path)
    # After the rename, two steps can fail the task: the confirmation, and the comparison, which
    # therefore comes behind pointer and marks. The clean-up is last, because it removes the files
    # that the comparison needs.
    with recorded_end(stage.folder, build.ref.interval, "publish", build.ref.plan_id):
        confirm_folder(stage.version_path, stage.folder.staging)
        _point(version)
        _lift(stage)
        if done.verdict == "published":
            _require_equal(stage, version)
    _clean(stage)
    return PublishReport(
        verdict=done.verdict, seconds=done.seconds, version=version.name, summary=summary(version)
    )


def _mark_training(build: Build) -> None:
    """Record since when the data set has a training, before this version becomes visible."""
    marks = TrainingMarks(DatasetFolder(Path(build.env.root), build.ref.dataset))
    if build.spec.train is None:
        marks.end()
    else:
        marks.begin(build.ref.interval)


def summary(version: Version) -> VersionSummary:
    """Return the facts about a version that reports and events have."""
    manifest = version.manifest
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    return VersionSummary(
        dataset=manifest.dataset,
        interval=version.path.parent.name,
        generation=version.path.name,
        fingerprint=manifest.fingerprint,
        content_digest=manifest.content_digest,
        manifest_sha256=version.manifest_sha256,
        samples=manifest.num_samples(),
        quarantined=manifest.quarantine["records"],
        filtered=sum(manifest.filtered.values()),
        shards=len(shards),
        bytes=sum(num_bytes for num_bytes, _ in manifest.file_digests().values()),
    )


def _publish(stage: Stage) -> StageReport:
    with measured_again(stage):
        assemble(stage)
        faults.point("publish.after_manifest")
        seal_folder(stage.staged)
        Version.open(stage.staged).verify()
    faults.point("publish.after_verify")
    return StageReport(stage="publish", verdict=_commit(stage))


def _commit(stage: Stage) -> str:
    """Rename the staged version; return the verdict: ``published`` when another run was faster."""
    if bucket_mark(stage.folder.root) is not None:
        name = f"{stage.plan.interval['name']}/{stage.version_path.name}"
        done = publish_staged(stage.folder, stage.staged, name, partial(require_wanted, stage))
        return "built" if done == "published" else "published"
    target = stage.version_path
    lock = stage.folder.interval_lock(stage.plan.interval["name"])
    posix.make_public_dir(target.parent)
    # Nobody withdraws a version of the interval between the look at the withdrawals and the rename.
    with posix.file_lock(lock):
        require_wanted(stage)
        faults.point("publish.before_rename")
        is_ours = commit_folder(stage.staged, target)
    if is_ours:
        faults.point("publish.after_rename")
        return "built"
    if stage.published() is None:
        raise ConflictError(
            f"{target} exists but holds no manifest; nothing was changed; look into it, move it"
            " away, and retry"
        )
    return "published"


def _require_equal(stage: Stage, version: Version) -> None:
    """Compare a version that was published before with the content that passed ``check`` here."""
    name = f"{stage.plan.dataset}/{stage.plan.interval['name']}/{version.path.name}"
    try:
        if not stage.verdict_file.exists():
            # The usual case: this run made nothing, and publication removes the work files.
            logger.info("%s was published before; this run made nothing to compare with it", name)
            return
        ours = checked_content(stage)
    except TrainFeedError as error:
        logger.warning("%s was published before; not compared with this run: %s", name, error)
        return
    if ours == version.manifest.content_digest:
        return
    # Without the verdict, the next run finds the interval published and reports success.
    stage.verdict_file.delete()
    raise NonDeterminismError(
        f"{version.path} has content {version.manifest.content_digest}, this run made {ours} from"
        f" the same fingerprint, its work files are in {stage.spill.uri}; the published version"
        " stays; make preprocessing a pure function of record and lookups"
    )


def _point(version: Version) -> None:
    """Move CURRENT forward, or take it away: without it, readers get the newest generation.

    The file is advisory: a failure here leaves the version published.
    """
    if bucket_mark(version.path.parents[3]) is not None:
        return
    pointer = version.path.parent / CURRENT
    try:
        with posix.file_lock(version.path.parent / ".lock"):
            if _pointed(pointer) < version.manifest.generation:
                name = f"{version.path.name}\n".encode()
                posix.replace_file(pointer, name, is_public=True)
    except (TrainFeedError, OSError, UnicodeDecodeError) as error:
        logger.warning("%s was not updated, the next run will: %s", pointer, error)
        _take_away(pointer, version.manifest.generation)


def _take_away(pointer: Path, generation: int) -> None:
    """Remove a CURRENT that names an older generation; this needs no space."""
    try:
        if _pointed(pointer) < generation:
            pointer.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s stays, and readers get what it names: %s", pointer, error)


def _lift(stage: Stage) -> None:
    """Remove the marks of an interval that was skipped, or failed, before its version."""
    interval = stage.plan.interval["name"]
    lift_end(stage.folder, interval)
    try:
        if decide(stage.folder, "publish", partial(lift_skip, stage.folder, interval)):
            logger.info("%s/%s is left out no more", stage.plan.dataset, interval)
    except (TrainFeedError, OSError) as error:
        marker = stage.folder.skip(interval)
        logger.warning("%s was not removed, the next run will: %s", marker, error)


def _pointed(pointer: Path) -> int:
    """Return the generation that CURRENT names, 0 if it names none."""
    try:
        return parse_generation(
            read_plain(pointer, follow=False, max_bytes=CURRENT_BYTES).decode().strip()
        )
    except (ConfigError, FormatError, StorageError, UnicodeDecodeError):
        return 0


def _clean(stage: Stage) -> None:
    """Remove the work files, and the staging folder of a slower run of the same plan."""
    try:
        stage.spill.delete(recursive=True)
        posix.remove_tree(stage.staged)
    except (TrainFeedError, OSError) as error:
        logger.warning("work files of plan %s stay behind: %s", stage.plan.plan_id, error)
