"""Builds a public set from its originals, with the stages of every other data set."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from trainfeed.core import canonical_json
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import ConflictError, FormatError, SourceReplacedError
from trainfeed.files.stores import Location
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import BuildReport, build
from trainfeed.publicsets.catalogue import PublicSet, public_set
from trainfeed.publicsets.originals import Originals
from trainfeed.publicsets.versions import LICENCE_FILE, SOURCE_FILE, publishing_root
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.versions import require_root

# --- Originals as a recorded topic: the source of the builds of public sets

_CREATE_TIME: Final = 1
_ROWS_PER_FILE: Final = 16_384


def record_originals(
    records: Iterable[bytes], again: Iterable[bytes], folder: Path, topic: str, start: datetime
) -> int:
    """Write originals as a topic of one partition, one millisecond apart.

    Args:
        records: The records, for the digest that becomes the topic's id.
        again: The same records once more, to be written: both are read one at a time.
        folder: Folder of the topic; new or empty.
        topic: Name of the topic.
        start: Time of the first record, aware.

    Returns:
        Number of records.

    Raises:
        FormatError: There is no record, or the second reading gave others.
        StorageError: The folder cannot be written.
    """
    digest, count = hashlib.sha256(), 0
    for record in records:
        _add(digest, record)
        count += 1
    if not count:
        raise FormatError("expected records among the originals, found none; nothing was built")
    name = str(uuid.UUID(bytes=digest.digest()[:16]))
    written = hashlib.sha256()
    batches = _batches(_digested(again, written), int(start.timestamp() * 1000))
    record_topic(Location.parse(str(folder.absolute())), topic, name, {0: batches}, _ROWS_PER_FILE)
    if written.digest() != digest.digest():
        raise FormatError(
            "expected equal records of the originals when they are read twice, got others;"
            " nothing was built; the originals were changed meanwhile: build again"
        )
    return count


def _digested(records: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for record in records:
        _add(digest, record)
        yield record


def _add(digest: hashlib._Hash, record: bytes) -> None:
    digest.update(len(record).to_bytes(4, "little"))
    digest.update(record)


def _batches(records: Iterable[bytes], start_ms: int) -> Iterator[pa.RecordBatch]:
    numbered = enumerate(records)
    while rows := list(itertools.islice(numbered, _ROWS_PER_FILE)):
        offsets = [offset for offset, _ in rows]
        columns = {
            "offset": offsets,
            "timestamp": [start_ms + offset for offset in offsets],
            "timestamp_type": [_CREATE_TIME] * len(rows),
            "key": [None] * len(rows),
            "value": [record for _, record in rows],
            "headers": [[]] * len(rows),
        }
        yield pa.RecordBatch.from_pydict(columns, schema=LANDING_SCHEMA)


# --- Builds a public set from its originals, with the stages of every other data set

_CONNECTION: Final = "originals"
_SETTING: Final = "the root of public sets"


@dataclass(frozen=True)
class PublicBuild:
    """A public set is published.

    Attributes:
        report: The report of the build.
        root: The publication root.
        num_originals: Number of records among the originals.
        source: JSON of the origin.
    """

    report: BuildReport
    root: Path
    num_originals: int
    source: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        told = {"root": str(self.root), "originals": self.num_originals, "source": self.source}
        return {**self.report.to_json(), **told}


def build_public_set(
    name: str,
    *,
    originals: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    work: str | os.PathLike[str] | None = None,
    on_stage: Callable[[str], object] = str,
) -> PublicBuild:
    """Build and publish a public set.

    Args:
        name: Name of the set.
        originals: Folder with the originals; by default the folder below ``data`` that the
            requirements file names, and then this environment.
        root: See ``publishing_root``; it was made with ``trainfeed init``.
        work: Folder for files that the build needs only until it ends, by default that of the
            system; for ``synthetic_imagenet`` they take about 1 GB.
        on_stage: Called with the name of every stage before the stage starts.

    Raises:
        ConfigError: There is no such set, or its originals are not there.
        RootError: The root was not made by ``trainfeed init``.
        TrainFeedError: The error of a stage; another call starts again and adopts what was staged.
    """
    chosen, place = public_set(name), publishing_root(root)
    require_root(place, _SETTING)
    above = None if work is None else local_target(work)
    found = chosen.read(None if originals is None else Path(local_source(originals)))
    source = {"set": name, "is_synthetic": chosen.is_synthetic, **found.source}
    with tempfile.TemporaryDirectory(prefix=f"trainfeed-{name}-", dir=above) as text:
        home = Path(text)
        spec = load_spec(_data_set(chosen, found, source, home / "sets" / name))
        interval = spec.schedule_model().interval_named(chosen.interval)
        topic = home / "recorded" / name
        count = record_originals(found.records(), found.records(), topic, name, interval.start)
        env = _environment(place, home)
        report = _build(spec, chosen, env, source, on_stage)
    return PublicBuild(report, place, count, source)


def _data_set(chosen: PublicSet, found: Originals, source: dict[str, Any], folder: Path) -> Path:
    """Copy the specification and its function, and write documents and lookups beside them."""
    folder.mkdir(parents=True)
    for path in sorted(chosen.folder.iterdir()):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    licence = folder / LICENCE_FILE
    if found.licence:
        licence.write_text(f"{licence.read_text()}\n{found.licence}")
    (folder / SOURCE_FILE).write_bytes(canonical_json.dumps(source))
    for name, data in found.files.items():
        (folder / name).write_bytes(data)
    return folder


def _environment(root: Path, home: Path) -> Environment:
    recorded = KafkaSettings(recorded=str(home / "recorded"))
    return Environment(
        root=str(root),
        landing=str(home / "landing"),
        work=str(home / "work"),
        kafka={_CONNECTION: recorded},
        datasets=home / "sets",
        root_setting=_SETTING,
    )


def _build(
    spec: DatasetSpec,
    chosen: PublicSet,
    env: Environment,
    source: dict[str, Any],
    on_stage: Callable[[str], object],
) -> BuildReport:
    """Build the set; if it is published from something else, as its next generation."""
    interval = spec.schedule_model().interval_named(chosen.interval)
    try:
        report = build(spec, interval, env, on_stage=on_stage)
    except (ConflictError, SourceReplacedError):
        why = f"other originals or code: {canonical_json.sha256_of(source)[:12]}"
        report = build(spec, interval, env, BuildRequest(rebuild=why), on_stage=on_stage)
    if not isinstance(report, BuildReport):
        raise TypeError("expected a topic, which no build skips")
    return report
