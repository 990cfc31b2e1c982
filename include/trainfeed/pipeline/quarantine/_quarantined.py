"""The quarantined records of a published version, or of a build that has not published.

During a build, the records are in work files of the plan, one file per task of ``preprocess``:
``<work>/spill/<plan id>/NNNNN.quarantine.arrow``. The files stay when the build fails, until the
next build of the same plan writes them again or ``housekeeping`` removes them. A published version
has the records in ``quarantine/records.arrow``, which only its builder may read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import open_plain
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.storage import FileInfo, Location, posix

__all__ = [
    "PUBLISHED",
    "Quarantine",
    "QuarantinedRecord",
    "arrow_errors",
    "quarantine_files",
    "quarantine_of_plan",
    "quarantine_of_version",
    "unpublished_plans",
]

PUBLISHED: Final = "quarantine/records.arrow"
_WORK_FILE: Final = re.compile(r"[0-9]{5,}\.quarantine\.arrow")
_SPILL: Final = "spill"

_Tables = Callable[[], Iterator[pa.Table]]


@dataclass(frozen=True)
class QuarantinedRecord:
    """One record that the function turned down.

    Attributes:
        source: Source string, as in ``kafka:clicks/0``.
        offset: Offset in the topic's partition; for a line, the byte at which it begins.
        reason: The short code with which the function rejected the record.
        message: The exact error, at most 500 characters.
        raw: The first 64 KiB of the value.
    """

    source: str
    offset: int
    reason: str
    message: str
    raw: bytes


@dataclass(frozen=True)
class Quarantine:
    """The quarantined records of one build of an interval.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        origin: Name of the generation with the records, or id of the plan that is not published.
        is_published: True if ``origin`` is a generation, False if it is a plan id.
        place: Path or URI of the file, or of the folder of the work files.
        modified_ms: When the records were written, milliseconds since 1970.
    """

    dataset: str
    interval: str
    origin: str
    is_published: bool
    place: str
    modified_ms: int
    _sources: tuple[str, ...]
    _tables: _Tables

    def reasons(self) -> dict[str, int]:
        """Count the records by reason, the most frequent first.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        counts: Counter[str] = Counter()
        for table in self._tables():
            for entry in table["reason"].value_counts().to_pylist():
                counts[entry["values"]] += entry["counts"]
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def records(self, reason: str | None = None) -> Iterator[QuarantinedRecord]:
        """Yield the records in order of source and offset, of one reason or of all.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        for table in self._tables():
            for row in table.to_pylist():
                if reason is None or row["reason"] == reason:
                    yield QuarantinedRecord(**{**row, "source": self._source(row["source"])})

    def _source(self, index: int | None) -> str:
        if index is None or not 0 <= index < len(self._sources):
            raise _damaged(self.place, f"source {index} of {len(self._sources)}")
        return self._sources[index]


def quarantine_files(place: Location) -> list[FileInfo]:
    """Return the quarantine files in the work folder of a plan, by number."""
    try:
        found = place.list()
    except NotFoundError:
        return []
    return sorted(
        (info for info in found if _WORK_FILE.fullmatch(info.name)), key=lambda info: info.name
    )


def quarantine_of_version(version: Version) -> Quarantine:
    """Return the quarantine of a published version; nothing is read yet.

    Raises:
        NotFoundError: The version has no such file.
    """
    path = version.path / PUBLISHED
    manifest = version.manifest
    if PUBLISHED not in manifest.file_digests():
        raise NotFoundError(f"version {version.name} has no file {PUBLISHED}")
    return Quarantine(
        dataset=manifest.dataset,
        interval=version.path.parent.name,
        origin=version.path.name,
        is_published=True,
        place=str(path),
        modified_ms=_modified_ms(version.path),
        _sources=tuple(manifest.sources),
        _tables=lambda: _published_tables(path),
    )


def quarantine_of_plan(env: Environment, ref: PlanRef) -> Quarantine:
    """Return the quarantine in the work files of a plan; during a build, the records so far.

    Raises:
        NotFoundError: There is no such plan, or its work files do not exist (any more).
    """
    plan = load_plan(DatasetFolder(Path(env.root), ref.dataset), ref)
    place = Location.parse(env.work) / _SPILL / plan.plan_id
    files = quarantine_files(place)
    if not files:
        raise NotFoundError(
            f"plan {plan.plan_id} of {ref.dataset}/{ref.interval} has no quarantined records in"
            f" {place.uri}: preprocess has not ended yet, the version is published, or the work"
            " files were removed by housekeeping; build the interval again to have them"
        )
    return _of_work_files(plan, place, files)


def unpublished_plans(env: Environment, dataset: str, interval: str) -> list[Quarantine]:
    """Return the quarantines in the work files of an interval's plans, the newest last."""
    folder = DatasetFolder(Path(env.root), dataset)
    spill = Location.parse(env.work) / _SPILL
    found = []
    for plan_id in folder.plan_ids(interval):
        if files := quarantine_files(spill / plan_id):
            plan = load_plan(folder, PlanRef(dataset, interval, plan_id))
            found.append(_of_work_files(plan, spill / plan_id, files))
    return sorted(found, key=lambda quarantine: quarantine.modified_ms)


def _of_work_files(plan: Plan, place: Location, files: Iterable[FileInfo]) -> Quarantine:
    names = [info.name for info in files]
    return Quarantine(
        dataset=plan.dataset,
        interval=plan.interval["name"],
        origin=plan.plan_id,
        is_published=False,
        place=place.uri,
        modified_ms=max(info.modified_ms for info in files),
        _sources=tuple(plan.sources),
        _tables=lambda: _work_tables(place, names),
    )


def _work_tables(place: Location, names: Iterable[str]) -> Iterator[pa.Table]:
    for name in names:
        with closing(ArrowWithTrailer(place / name)) as file:
            yield from file.iter_tables()


def _published_tables(path: Path) -> Iterator[pa.Table]:
    with open_plain(path, follow=False) as file, arrow_errors(path):
        reader = pa.ipc.open_file(file)
        if not reader.schema.equals(QUARANTINE_SCHEMA):
            raise _damaged(str(path), f"got columns {reader.schema.names}, or of other types")
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            # The buffers come from a file: without validation, an offset that points outside of its
            # buffer would crash the process.
            batch.validate(full=True)
            yield pa.Table.from_batches([batch])


@contextmanager
def arrow_errors(path: Path) -> Iterator[None]:
    """Raise Arrow's errors about damaged bytes of a file as ``FormatError``."""
    try:
        yield
    # pyarrow raises some errors about damaged bytes as OSError without errno.
    except (pa.ArrowException, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _damaged(str(path), str(error)) from error


def _damaged(path: str, problem: str) -> FormatError:
    return FormatError(
        f"expected quarantined records: {problem}; compare the version: trainfeed verify", path=path
    )


def _modified_ms(path: Path) -> int:
    with posix.map_errors(path):
        return path.stat().st_mtime_ns // 1_000_000
