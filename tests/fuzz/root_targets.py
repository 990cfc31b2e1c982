"""Targets for a publication root and work files: every file there that is read whole.

Each target writes the bytes where the file would be, and reads it by the call that reads it in a
build, a reader or a command.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.fuzz.places import place
from tests.fuzz.targets import SEEDS
from trainfeed.core import canonical_json
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.look.status.versions import IndexRow, VersionFacts, parse_index
from trainfeed.pipeline.inputs.boundary_files import read_boundary
from trainfeed.pipeline.landed_ranges import landed_leaf
from trainfeed.pipeline.plans import PLANS, PlannedInput, PlannedRange
from trainfeed.pipeline.quarantine import Quarantine
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.sorting.spill_files import (
    QUARANTINE_SCHEMA,
    ArrowWithTrailer,
    TrailerWriter,
)
from trainfeed.samples import Field, Schema, Statistics
from trainfeed.sources import LANDING_SCHEMA, LandingFile, LandingWriter, RecordedTopic
from trainfeed.training.jobs import JobRecord, JobSpec
from trainfeed.training.models import PROD, ModelManifest, ModelsFolder, history
from trainfeed.uploads import Receipt, ReceiptBook, Refusal, unannounced
from trainfeed.uploads.receipts import RECEIPTS, REFUSALS, Seen
from trainfeed.versions import DatasetFolder, Ledger, Manifest, Version
from trainfeed.versions.interval_notes import read_unpublished
from trainfeed.versions.layout import plan_id_of
from trainfeed.versions.ledger import Leaf
from trainfeed.versions.root import require_root
from trainfeed.versions.schedule import read_schedule
from trainfeed.versions.skip import read_skip
from trainfeed.versions.training_marks import TrainingMarks

__all__ = ["ROOT_SEEDS", "ROOT_TARGETS"]

_INTERVAL = "2013-01-01"
_SCHEMA = Schema(
    (Field("a", "int64"), Field("b", "float32", (2,)), Field("c", "str"), Field("d", "uint8"))
)


def _home() -> Path:
    """Return a folder for the files of this process."""
    return place("root")


def _placed(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _folder() -> DatasetFolder:
    return DatasetFolder(_home(), "a")


def landing(data: bytes) -> None:
    """A landing file: rows by batches, stamps alone, and the account of the trailer."""
    path = _placed(_home() / "landing.arrow", data)
    topic = dict.fromkeys(("connection", "topic", "topic_uuid", "cluster"), "a")
    planned = PlannedInput(**topic, partition=0, start=0, end=1 << 62)
    piece = PlannedRange(source="kafka:a/0", start=0, end=1 << 62)
    landed_leaf(Location.parse(str(path)), planned, piece)
    with closing(LandingFile.open(io.BytesIO(data))) as file:
        stamps = [len(offsets) for offsets, _ in file.iter_stamps()]
        assert stamps == [len(batch) for batch in file.iter_batches(verifies=True)]


def spill(data: bytes) -> None:
    """A work file: all rows, at once and batch by batch."""
    path = _placed(_home() / "spill.arrow", data)
    with closing(ArrowWithTrailer(Location.parse(str(path)))) as file:
        table = file.read_all()
        assert pa.concat_tables(file.iter_tables()).equals(table)


def quarantine(data: bytes) -> None:
    """Quarantined records of a published version; its digest is right, as an author's would be."""
    folder = _home() / "quarantined"
    _placed(folder / "quarantine" / "records.arrow", data).chmod(0o600)
    found: Quarantine = quarantine_of_version(Version(folder, _quarantined(data), "0" * 64))
    assert sum(found.reasons().values()) == len(list(found.places()))


def current(data: bytes) -> None:
    """CURRENT of an interval: names a generation that is there, or counts for nothing."""
    folder = _folder()
    _placed(folder.version(_INTERVAL, 1) / "MANIFEST.json", b"")
    _placed(folder.interval(_INTERVAL) / "CURRENT", data)
    assert folder.readable_generation(_INTERVAL) == 1


def boundary(data: bytes) -> None:
    """A boundary file."""
    found = read_boundary(_placed(_folder().boundaries("t", "u") / "20130101T000000Z.json", data))
    for partition in found.partitions:
        assert found.is_proved_alone(partition) in {True, False}
        assert found.offset(partition) >= 0


def plan(data: bytes) -> None:
    """A plan; what is accepted comes back from its own bytes."""
    # The id in the path is that of the seed: every mutation of its values changes the id.
    path = _placed(_folder().plan(_INTERVAL, "0123456789abcdef-g0001"), data)
    found = PLANS.read(path)
    assert found is not None
    assert PLANS.parse(PLANS.dumps(found), path) == found
    assert len(found.all_shards()) == sum(found.shards.values())


def ledger(data: bytes) -> None:
    """The ledger of a manifest."""
    value = canonical_json.loads(data)
    found = Ledger.from_json(value)
    assert Ledger.from_json(found.to_json()) == found
    found.imbalances()


def job(data: bytes) -> None:
    """A training job, for its ranks, and for what looks at which versions were trained on."""
    folder = DatasetFolder(_home() / "jobs", "a")
    path = _placed(folder.training(_INTERVAL, "job") / "job.json", data)
    _placed(folder.version(_INTERVAL, 1) / "MANIFEST.json", b"")
    TrainingMarks(folder).untrained()
    found = JobSpec.read(path)
    assert JobSpec.model_validate(found.to_json()) == found


def job_record(data: bytes) -> None:
    """The files beside a job: its result, an attempt, and what became of it."""
    record = JobRecord(_home() / "recorded-job")
    _placed(record.home / "result.json", data)
    with suppress(TrainFeedError):
        record.result()
    ended = _placed(record.home / "attempts" / "0001.ended.json", data)
    _placed(record.home / "attempts" / "0001.json", canonical_json.dumps({"job": _a_job()}))
    with suppress(TrainFeedError):
        record.attempt(1)
    ended.unlink()
    _placed(record.home / "attempts" / "0001.json", data)
    assert record.attempt(1).number == 1


def model(data: bytes) -> None:
    """A model's manifest, and a change of an alias of it."""
    folder = ModelsFolder(_home()).model("a")
    _placed(folder.alias(PROD) / "0001.json", data)
    with suppress(TrainFeedError):
        assert len(history(folder, PROD)) == 1
    found = ModelManifest.from_bytes(data, path="a")
    assert ModelManifest.from_bytes(found.to_bytes(), path="a") == found


def marker(data: bytes) -> None:
    """The small files of a root: its mark, skipped and failed intervals, a schedule, a topic."""
    folder = _folder()
    _placed(folder.unpublished(_INTERVAL), data)
    # In a folder of its own: below a sealed mark, the inputs of other targets would need seals.
    _placed(_home() / "marked" / "TRAINFEED.json", data)
    _placed(folder.skip(_INTERVAL), data)
    _placed(folder.schedule, data)
    _placed(_home() / "topic" / "TOPIC.json", data)
    _placed(folder.training_marks / "since.json", data)
    for read in _MARKERS:
        read(folder)


def receipt(data: bytes) -> None:
    """The receipt and the refusal of an upload; what is accepted comes back from its own bytes.

    The input is sealed here, so that what lies behind the digest is reached.
    """
    data = canonical_json.seal(data.removesuffix(b"}") + b"\n}\n")
    folder = DatasetFolder(_home() / "uploads", "a")
    path = _placed(folder.receipts / "refused" / "0.json", data)
    with suppress(TrainFeedError):
        (refusal,) = ReceiptBook(folder).refusals()
        assert REFUSALS.parse(REFUSALS.dumps(refusal), path) == refusal
    path.unlink()
    path = _placed(folder.receipts / "announced.json", data)
    with suppress(TrainFeedError):
        assert unannounced(folder) == []
    path.unlink()
    _placed(folder.receipts / "00000001.json", data)
    (found,) = ReceiptBook(folder).receipts()
    assert RECEIPTS.parse(RECEIPTS.dumps(found), path) == found
    assert found.interval


def status_index(data: bytes) -> None:
    """The index of a status: damaged lines are left out, and no line is an error."""
    for row in parse_index(data).values():
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            facts = VersionFacts.from_json(row.facts)
            assert VersionFacts.from_json(facts.to_json()) == facts


def schema(data: bytes) -> None:
    """A schema; what is accepted comes back from its own JSON."""
    found = Schema.from_json(canonical_json.loads(data))
    assert Schema.from_json(found.to_json()) == found


def statistics(data: bytes) -> None:
    """Statistics of a version, with their histograms, read, added up and written again."""
    found = Statistics.from_json(_SCHEMA, canonical_json.loads(data))
    found.merge(Statistics.from_json(_SCHEMA, canonical_json.loads(data)))
    canonical_json.dumps(found.to_json())


def _read_root(folder: DatasetFolder) -> None:
    require_root(folder.path.parent / "marked", "TRAINFEED_ROOT")


def _read_topic(folder: DatasetFolder) -> None:
    RecordedTopic(Location.parse(str(folder.path.parent / "topic")))


def _ours(read: Callable[[DatasetFolder], object]) -> Callable[[DatasetFolder], None]:
    def run(folder: DatasetFolder) -> None:
        with suppress(TrainFeedError):
            read(folder)

    return run


_MARKERS = tuple(
    map(
        _ours,
        (
            _read_root,
            lambda folder: read_skip(folder, _INTERVAL),
            lambda folder: read_unpublished(folder, _INTERVAL),
            read_schedule,
            _read_topic,
            lambda folder: TrainingMarks(folder).untrained(),
        ),
    )
)


def _quarantined(data: bytes) -> Manifest:
    found = json.loads(SEEDS["manifest"]()[0])
    digest = hashlib.sha256(data).hexdigest()
    entry = {"name": "quarantine/records.arrow", "bytes": len(data), "sha256": digest}
    found["files"].append(entry)
    return Manifest.from_bytes(canonical_json.dumps(found))


ROOT_TARGETS: dict[str, Callable[[bytes], None]] = {
    "landing": landing,
    "spill": spill,
    "quarantine": quarantine,
    "current": current,
    "boundary": boundary,
    "plan": plan,
    "ledger": ledger,
    "job": job,
    "job_record": job_record,
    "model": model,
    "marker": marker,
    "receipt": receipt,
    "status_index": status_index,
    "schema": schema,
    "statistics": statistics,
}


def _landings() -> list[bytes]:
    files = []
    for values in ([b"a", None, b"ccc"], []):
        rows = [
            {
                "offset": i,
                "timestamp": i,
                "timestamp_type": 1,
                "key": b"k",
                "value": value,
                "headers": [],
            }
            for i, value in enumerate(values)
        ]
        file = io.BytesIO()
        writer = LandingWriter(file)
        writer.write(pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA))
        leaf = Leaf(len(rows), 4, 1, 2).to_json()
        writer.close({"ledger": canonical_json.dumps(leaf).decode()})
        files.append(file.getvalue())
    return files


def _rows() -> pa.Table:
    row = {"source": 0, "offset": 1, "reason": "bad", "message": "m", "raw": b"raw"}
    return pa.Table.from_pylist([row, {**row, "offset": 2}], schema=QUARANTINE_SCHEMA)


def _spills() -> list[bytes]:
    file = io.BytesIO()
    writer = TrailerWriter(file, QUARANTINE_SCHEMA)
    writer.write(_rows())
    writer.close({"rows": {"train": [0, 2]}})
    return [file.getvalue()]


def _quarantines() -> list[bytes]:
    file = io.BytesIO()
    with pa.ipc.new_file(file, QUARANTINE_SCHEMA) as writer:
        writer.write_table(_rows())
    return [file.getvalue(), *_spills()]


def _boundaries() -> list[bytes]:
    left = {"first": [0, 2], "last": [0, 2], "minutes_wrong": 0}
    right = {"first": [1, 5], "last": [1, 5], "minutes_wrong": 0}
    evidence = {
        **dict.fromkeys(("clock_ms", "high_watermark", "without_evidence"), 9),
        **dict.fromkeys(("hint", "index_test", "floor", "ceiling", "proof"), None),
        "method": "index",
        "left": left,
        "right": right,
    }
    partition = {
        "offset": 1,
        "log_start": 0,
        "log_end": 9,
        "record_timestamp_ms": 5,
        "leader_epoch": None,
        "method": "index",
    }
    restored = {**partition, "record_timestamp_ms": None, "method": "scan"}
    found = {**partition, "evidence": evidence}
    at = "2013-01-01T00:00:00Z"
    head = {"at": at, "found_at": at, "topic": "t", "topic_uuid": "u", "cluster": "c"}
    return [
        canonical_json.dumps({**head, "partitions": {"0": restored, "1": each}})
        for each in (restored, found)
    ]


def _ledgers() -> list[bytes]:
    leaf = Leaf(1, 2, 3, 4).to_json()
    valid = {**leaf, "samples": 1, "s1": "0" * 16, "s2": "f" * 16}
    source = {"read": leaf, "valid": valid, "quarantined": leaf, "filtered": {"empty": leaf}}
    return [canonical_json.dumps({"kafka:a/0": source})]


def _a_job() -> dict[str, Any]:
    digest = "0" * 64
    version = {
        "interval": _INTERVAL,
        "generation": "g0001",
        "path": "/a",
        "content_digest": digest,
        "manifest_sha256": digest,
    }
    texts = dict.fromkeys(("name", "dataset", "interval", "folder", "entry", "code"), "a")
    return {**texts, "seed": 7, "ranks": 1, "versions": [version]}


def _jobs() -> list[bytes]:
    place = {
        "launcher": "job-set",
        "connection": "k",
        "volumes": ["a"],
        "node_selector": {"a": "b"},
    }
    later = {"image": "a", "command": ["a"], "environment": {"A": "b"}, "placement": place}
    return [
        canonical_json.dumps(_a_job()),
        canonical_json.dumps({**_a_job(), **later, "attempt": 2}),
    ]


def _job_records() -> list[bytes]:
    rank = {"rank": 0, "state": "failed", "reason": "r"}
    ended = {"state": "failed", "reason": "r", "ranks": [rank], "is_rejected": False}
    file = {"size": 1, "sha256": "0" * 64}
    result = {"metrics": {"a": 0.5}, "files": {"m": file}, "job": "a", "identity": "b"}
    attempt = {"job": _a_job(), "why": "w"}
    return [canonical_json.dumps(each) for each in (ended, result, attempt, {"a": 0.5})]


def _models() -> list[bytes]:
    digest, at = "0" * 64, "2013-01-01T00:00:00+00:00"
    texts = dict.fromkeys(("dataset", "interval", "name", "identity", "entry", "code"), "a")
    read = dict.fromkeys(("interval", "generation", "content_digest", "manifest_sha256"), "a")
    manifest = {
        "format": 1,
        "model": "a",
        "version": 1,
        "job": {**texts, "seed": 7, "ranks": 1},
        "data": [{**read, "fingerprint": None}],
        "data_digest": digest,
        "metrics": {"auc": 0.5},
        "files": [{"name": "b/model.npz", "bytes": 1, "sha256": digest}],
    }
    change = {"kind": "promote", "version": "v0001", "at": at, "by": "a", "why": "w"}
    return [canonical_json.dumps(manifest), canonical_json.dumps(change)]


def _plans() -> list[bytes]:
    source, interval = "kafka:a/0", {"start": f"{_INTERVAL}T00:00:00Z", "end": "e"}
    topic = dict.fromkeys(("connection", "topic", "topic_uuid", "cluster"), "a")
    values = {
        "format": 1,
        "dataset": "a",
        "interval": interval,
        "inputs": {source: [0, 9]},
        "spec": {"schema": []},
        "code": "a",
        "lookups": {},
    }
    fingerprint = canonical_json.sha256_of(values)
    plan = {
        **{key: [] for key in ("quality", "gaps", "schema")},
        **{key: {} for key in ("lookups", "libraries")},
        "format": 1,
        "dataset": "a",
        "plan_id": plan_id_of(fingerprint, 1),
        "fingerprint": fingerprint,
        "fingerprint_of": values,
        "generation": 1,
        "supersedes": None,
        "rebuild": None,
        "interval": {"name": _INTERVAL, **interval},
        "inputs": {source: {**topic, "partition": 0, "start": 0, "end": 9}},
        "code": {"digest": "a"},
        "ranges": [{"source": source, "start": 0, "end": 9}],
        "ingest": [[0]],
        "preprocess": [[0]],
        "convert": [[{"split": "train", "index": 0}]],
        "shards": {"train": 1},
    }
    return [canonical_json.dumps(plan)]


def _markers() -> list[bytes]:
    mark: dict[str, Any] = {"format": 1, "id": "i", "made_at": "m", "made_by": "b"}
    skip = {"interval": _INTERVAL, "why": "w", "at": "2013-01-01T00:00:00Z", "until": None}
    schedule = {"format": 1, "cron": "0 0 * * *", "first": skip["at"], "last": None}
    topic = {"topic": "t", "uuid": "u", "partitions": [{"start": 0, "end": 3}]}
    since = {"versions": {_INTERVAL: 1}}
    ended = {"interval": _INTERVAL, "since": skip["at"], "work": "check", "plan": None}
    ended |= {"outcome": "failed", "error": "GateError", "why": "w"}
    return list(map(canonical_json.dumps, (mark, skip, schedule, topic, since, ended)))


def _status_indexes() -> list[bytes]:
    topic = ("kafka:a", "0" * 16, [0, 1], [0, 5], [3, 9])
    facts = VersionFacts(0, 86_400, 3, "no record", ("kafka:a/0 lost",), 2, 5_000, [topic])
    row = IndexRow(_INTERVAL, ["CURRENT", "g0001"], 1, [1, 2, 3, 4, 5], facts.to_json())
    return [row.to_line() * 2, b"\n"]


def _receipts() -> list[bytes]:
    seen = Seen(3, 4, 5)
    made = Receipt(1, f"{_INTERVAL}/a.csv", "csv", "0" * 64, 2, 2, seen, "t", "a", 0)
    refusals = [Refusal(f"{_INTERVAL}/a.csv", "why", each, "r", "t") for each in (seen, None)]
    return [canonical_json.dumps({"format": 1, **asdict(each)}) for each in (made, *refusals)]


def _schemas() -> list[bytes]:
    fields = (*_SCHEMA, Field("e", "int16", (None, 2), optional=True), Field("f", "bytes"))
    return [canonical_json.dumps(Schema(fields).to_json())]


def _statistics() -> list[bytes]:
    found = Statistics(_SCHEMA)
    for number in range(3):
        found.update({"a": number - 1, "b": [0.5, number], "c": "é", "d": number})
    return [canonical_json.dumps(each.to_json()) for each in (found, Statistics(_SCHEMA))]


ROOT_SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "landing": _landings,
    "spill": _spills,
    "quarantine": _quarantines,
    "current": lambda: [b"g0001\n", b"g0001.withdrawn", b""],
    "boundary": _boundaries,
    "plan": _plans,
    "ledger": _ledgers,
    "job": _jobs,
    "job_record": _job_records,
    "model": _models,
    "marker": _markers,
    "receipt": _receipts,
    "status_index": _status_indexes,
    "schema": _schemas,
    "statistics": _statistics,
}
