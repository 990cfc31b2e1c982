"""The quarantined records of a published version, or of a build that has not published.

During a build, the records are in work files of the plan, one file per task of ``preprocess``:
``<work>/spill/<plan id>/NNNNN.quarantine.arrow``. The files stay when the build fails, until the
next build of the same plan writes them again or ``housekeeping`` removes them. A published version
has the records in ``quarantine/records.arrow``, which only its builder may read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import open_plain
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.quarantine._private_quarantine import require_private
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.storage import FileInfo, Location, posix

__all__ = [
    "MOST_RAW_BYTES",
    "PUBLISHED",
    "Quarantine",
    "QuarantinedPlace",
    "QuarantinedRecord",
    "arrow_errors",
    "plans_with_work",
    "quarantine_files",
    "quarantine_of_plan",
    "quarantine_of_version",
    "raw_records",
    "unpublished_plans",
]

PUBLISHED: Final = "quarantine/records.arrow"
_WORK_FILE: Final = re.compile(r"[0-9]{5,}\.quarantine\.arrow")
_SPILL: Final = "spill"

_RAW: Final = "raw"
# The quarantine keeps so many bytes of a value; the position leads to the whole.
MOST_RAW_BYTES: Final = 64 << 10

# Reads a table for each batch; the argument says whether with the raw bytes.
_Tables = Callable[[bool], Iterator[pa.Table]]


@dataclass(frozen=True)
class QuarantinedPlace:
    """A record that the function turned down: where it is and why, without its bytes.

    Attributes:
        source: Source string, as in ``kafka:clicks/0``.
        offset: Offset in the topic's partition; for a line, the byte at which it begins.
        reason: The short code with which the function rejected the record.
        message: The exact error, at most 500 characters.
    """

    source: str
    offset: int
    reason: str
    message: str


@dataclass(frozen=True)
class QuarantinedRecord(QuarantinedPlace):
    """The same with its bytes, which may hold personal data.

    Attributes:
        raw: The first 64 KiB of the value; empty for a record without a value.
    """

    raw: bytes

    @property
    def may_be_cut(self) -> bool:
        """Whether the value may be longer than the bytes that are kept."""
        return len(self.raw) >= MOST_RAW_BYTES


@dataclass(frozen=True)
class Quarantine:
    """The quarantined records of one build of an interval; ``read_raw`` gives their bytes.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        origin: Name of the generation with the records, or id of the plan that is not published.
        plan: The plan of the build; its file may be gone.
        is_published: True if ``origin`` is a generation, False if it is a plan id.
        place: Path or URI of the file, or of the folder of the work files.
        modified_ms: When the records were written, milliseconds since 1970.
    """

    dataset: str
    interval: str
    origin: str
    plan: PlanRef
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
        for table in self._tables(False):
            for entry in table["reason"].value_counts().to_pylist():
                counts[entry["values"]] += entry["counts"]
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def places(self, reason: str | None = None) -> Iterator[QuarantinedPlace]:
        """Yield position and reason of the records in order of source and offset.

        Args:
            reason: Only records with this reason; None for all.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        for row in self._rows(reason, is_raw=False):
            yield QuarantinedPlace(**row)

    def _rows(self, reason: str | None, *, is_raw: bool) -> Iterator[dict[str, Any]]:
        for table in self._tables(is_raw):
            chosen = table if reason is None else table.filter(pc.field("reason") == reason)
            for row in chosen.to_pylist():
                yield {**row, "source": self._source(row["source"])}

    def _source(self, index: int | None) -> str:
        if index is None or not 0 <= index < len(self._sources):
            raise _damaged(self.place, f"source {index} of {len(self._sources)}")
        return self._sources[index]


def raw_records(quarantine: Quarantine, reason: str | None = None) -> Iterator[QuarantinedRecord]:
    """Yield the records with their bytes, for this room alone: others use ``read_raw``.

    Args:
        quarantine: The quarantine.
        reason: Only records with this reason; None for all.

    Raises:
        AccessDeniedError: Only the account that builds may read them.
        FormatError: A file is damaged.
    """
    for row in quarantine._rows(reason, is_raw=True):  # noqa: SLF001 - the same module
        yield QuarantinedRecord(**row)


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
        plan=PlanRef(manifest.dataset, version.path.parent.name, manifest.plan),
        is_published=True,
        place=str(path),
        modified_ms=_modified_ms(version.path),
        _sources=tuple(manifest.sources),
        _tables=lambda is_raw: _published_tables(path, is_raw=is_raw),
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


def plans_with_work(env: Environment) -> frozenset[str]:
    """Return the ids of the plans, of all data sets, that have a folder of work files."""
    try:
        return frozenset(info.name for info in (Location.parse(env.work) / _SPILL).list())
    except NotFoundError:
        return frozenset()


def unpublished_plans(
    env: Environment, dataset: str, interval: str, with_work: frozenset[str] | None = None
) -> list[Quarantine]:
    """Return the quarantines in the work files of an interval's plans, the newest last.

    Args:
        env: Folders and connections.
        dataset: Name of the data set.
        interval: Name of the interval.
        with_work: The result of ``plans_with_work``, for callers that ask for many intervals.
    """
    folder = DatasetFolder(Path(env.root), dataset)
    spill = Location.parse(env.work) / _SPILL
    found = []
    for plan_id in folder.plan_ids(interval):
        if with_work is not None and plan_id not in with_work:
            continue
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
        plan=plan.ref(),
        is_published=False,
        place=place.uri,
        modified_ms=max(info.modified_ms for info in files),
        _sources=tuple(plan.sources),
        _tables=lambda is_raw: _work_tables(place, names, is_raw=is_raw),
    )


def _work_tables(place: Location, names: Iterable[str], *, is_raw: bool) -> Iterator[pa.Table]:
    for name in names:
        with closing(ArrowWithTrailer(place / name)) as file:
            for table in file.iter_tables():
                yield table if is_raw else table.drop_columns(_RAW)


def _published_tables(path: Path, *, is_raw: bool) -> Iterator[pa.Table]:
    with open_plain(path, follow=False) as file, arrow_errors(path):
        require_private(path, os.fstat(file.fileno()), owner=path.parent.parent)
        schema = pa.ipc.open_file(file).schema
        if not schema.equals(QUARANTINE_SCHEMA):
            raise _damaged(str(path), f"got columns {schema.names}, or of other types")
        fields = [i for i, name in enumerate(schema.names) if is_raw or name != _RAW]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        reader = pa.ipc.open_file(file, options=options)
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
