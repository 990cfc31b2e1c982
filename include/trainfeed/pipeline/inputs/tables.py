"""The rows that were appended to a table of Iceberg: planned as data files, and read."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import (
    ConfigError,
    FormatError,
    NotFoundError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    StorageError,
)
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.row_files import (
    FileLayout,
    Layouts,
    RowRange,
    iter_rows,
    keep_layouts,
    kept_layouts,
)
from trainfeed.pipeline.inputs.snapshot_windows import TableEdges, Trouble, find_window
from trainfeed.pipeline.inputs.topics import Awaited
from trainfeed.pipeline.plans import (
    Planned,
    PlannedFile,
    PlannedRange,
    PlannedSnapshot,
    first_few,
    planned_of,
)
from trainfeed.pipeline.stage import Stage
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.sources.column_files import column_layout
from trainfeed.specification import DatasetSpec, IcebergSourceSpec
from trainfeed.versions import DatasetFolder, Manifest, Skip
from trainfeed.versions.order import iceberg_source

if TYPE_CHECKING:
    from trainfeed.sources.iceberg_tables import AddedFile, Commit, TableColumn

# --- The data files of an interval, as inputs of the planner

# A request or two per file; waiting for the answers takes most of the time.
_THREADS: Final = 8
_PARQUET: Final = "parquet"
_TOLD_BY: Final = "source.iceberg"
_NOTHING: Final = "nothing was read or published"


def table_of(spec: DatasetSpec) -> IcebergSourceSpec:
    """Return the part ``source.iceberg`` of a specification.

    Raises:
        ConfigError: The data set has no table.
    """
    if spec.source.iceberg is None:
        raise ConfigError(f"expected data set {spec.name!r} to have source.iceberg, it has none")
    return spec.source.iceberg


class TableInputs:
    """The data files that an interval reads, as ``Inputs`` of the planner.

    Args:
        spec: A data set of a table.
        env: Folders and connections; of a preview, with the copies of the first rows.
        folder: The data set below the publication root.
        interval: The interval.

    Raises:
        ConfigError: The catalogue is not defined, or refuses the credentials.
        SourceUnreachableError: It does not answer.
        TableNotFoundError: It has no such table.
        SourceReplacedError: The branch was set back behind a boundary.
    """

    marker: str | None = None

    def __init__(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> None:
        # Not at the top: tasks that read rows ask no catalogue.
        from trainfeed.pipeline.inputs.catalogs import open_table

        source = table_of(spec)
        self._source, self._folder, self._interval = source, folder, interval
        self._now = datetime.now(UTC)
        self._awaited = Awaited.of(spec, interval, source.setting, source.missing_rule)
        catalogs, self._copies = _without_copies(env.catalogs, source.catalog)
        self._table = open_table(catalogs, source.catalog, source.table)
        self._edges = TableEdges(folder, self._table, self._now)
        self._window = find_window(self._table, self._edges, interval)
        if self._window.has_later and not self._awaited.is_over(self._now):
            # Where the table has gone on, no commit of the interval is still to come.
            self._awaited = replace(self._awaited, ended_by="the table has later commits")
        self._why_lost: str | None = None

    @property
    def passed_over(self) -> Mapping[str, str]:
        """Name → reason of every snapshot that is not read."""
        others = {each.name: "left out as a gap" for each in self._window.troubles}
        return {**self._window.passed_over, **others}

    def inputs(self, current: Manifest | None) -> Mapping[str, PlannedFile]:
        """Return source string → planned file.

        Args:
            current: The published version, or None. Where snapshots or files of it are expired, its
                inputs are returned: what it read cannot have changed.

        Raises:
            SourceReplacedError: A file of the table is gone, or is not the one that was added.
            FormatError: Metadata of the table is damaged.
            StorageError: A file cannot be read.
        """
        kept = {} if current is None else self._published(current)
        is_lost = any(each.is_loss for each in self._window.troubles)
        if kept and is_lost:
            return kept
        try:
            return self._planned
        except SourceReplacedError:
            if not kept:
                raise
            return kept

    def _published(self, current: Manifest) -> Mapping[str, PlannedFile]:
        """Return the inputs of a version that were files of this table; none if others were."""
        found = {source: planned_of(value) for source, value in current.inputs.items()}
        files = {
            source: each
            for source, each in found.items()
            if isinstance(each, PlannedFile)
            and each.snapshot is not None
            and each.snapshot.table_uuid == self._table.uuid
        }
        return files if len(files) == len(found) else {}

    def skip(self) -> Skip | None:
        """Return the decision to skip the interval, or None if it is built.

        Raises:
            WindowOpenError: Nothing was appended, and the wait for it has not ended.
            SourceMissingError: Nothing was appended, and something has to be.
        """
        if self._window.appends or (self._window.troubles and not self._is_all_lost):
            return None
        why = f"nothing was appended to table {self._table.name}"
        if self._is_all_lost:
            if self._source.missing != "skip":
                return None
            why = f"{why} that is still there: {self._window.troubles[0].what}"
        elif not self._awaited.is_over(self._now):
            raise self._awaited.not_yet(why)
        elif self._source.missing == "fail":
            raise self._awaited.missing(why, "let rows be appended into a later interval, or ")
        if self._source.missing != "skip":
            return None
        self._fix()
        return self._awaited.skip(f"{why}; {self._awaited.since}", self._now)

    @property
    def _is_all_lost(self) -> bool:
        """Whether the interval has no snapshot that is still there, and may have had some."""
        troubles = self._window.troubles
        return not self._window.appends and len(troubles) == 1 and troubles[0].is_loss

    def without_losses(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[Mapping[str, PlannedFile], list[dict[str, Any]]]:
        """Return the files to read, and the gaps: snapshots that are not read.

        Raises:
            OffsetOutOfRangeError: Snapshots of the interval are expired, or may be.
            SourceReplacedError: Snapshots of it change or delete rows; or a file is gone, or is not
                the one that was added.
            FormatError: Metadata or a file is damaged, or a column of a file does not hold the
                values of the table's.
            ConfigError: A column is not there, or has a type that is not read.
            StorageError: A file cannot be read.
        """
        self._fix()
        gaps = list(self._gaps(current, allow_gap))
        self._why_lost = next((gap["why"] for gap in gaps), None)
        return self._with_layouts(self._planned), gaps

    def confirm(self) -> None:
        """Do nothing: nothing removes the boundary files of a table."""

    def empty_because(
        self,
        inputs: Mapping[str, Planned],
        allow_gap: str | None,  # noqa: ARG002 - a rebuild has the reason that was given once
    ) -> dict[str, str]:
        """Return why nothing is read of the table; an empty mapping if a file is."""
        if inputs:
            return {}
        why = "nothing_appended" if not self._window.troubles else f"lost: {self._why_lost}"
        return {f"iceberg:{self._table.name}": why}

    def _fix(self) -> None:
        for at in (self._interval.start, self._interval.end):
            self._edges.fix(at)
        # A parallel run may have been faster, and have seen another line.
        found = find_window(self._table, self._edges, self._interval)
        if found != self._window:
            self._window = found
            for name in ("_columns", "_files"):
                vars(self).pop(name, None)

    def _gaps(self, current: Manifest | None, allow_gap: str | None) -> Iterator[dict[str, Any]]:
        name = f"iceberg:{self._table.name}"
        # The published version was accepted with them.
        known = {
            (gap["start"], gap["end"]): gap
            for gap in (() if current is None else current.gaps)
            if gap["source"] == name
        }
        new = [each for each in self._window.troubles if (each.start, each.end) not in known]
        if new and allow_gap is None:
            raise self._refused(new)
        for each in self._window.troubles:
            gap = {"source": name, "start": each.start, "end": each.end, "why": allow_gap}
            yield known.get((each.start, each.end), gap)

    def _refused(self, troubles: Sequence[Trouble]) -> OffsetOutOfRangeError | SourceReplacedError:
        lines = [each.what for each in troubles]
        text = (
            f"table {self._table.name} has no proof that what was appended in"
            f" {self._folder.name}/{self._interval.name} is all of its rows: {first_few(lines)};"
            f" {_NOTHING}; look at the table's history; to read what was appended and leave the"
            " rest out as a gap that the manifest names, run again with --allow-gap WHY (Airflow:"
            " parameter 'allow_gap')"
        )
        is_lost = any(each.is_loss for each in troubles)
        return OffsetOutOfRangeError(text) if is_lost else SourceReplacedError(text)

    @cached_property
    def _columns(self) -> list[TableColumn]:
        """The columns that are read, with their names at the end of the interval."""
        table, wanted = self._table, self._source.columns
        last = self._window.last
        found = {each.name: each for each in table.columns(None if last is None else last.schema)}
        missing = [name for name in wanted or () if name not in found]
        if missing:
            raise ConfigError(
                f"expected the columns {missing} of source.iceberg.columns in table {table.name} as"
                f" it was at the end of {self._interval.name}, got {', '.join(found)}; {_NOTHING};"
                " correct source.iceberg.columns"
            )
        columns = list(found.values()) if wanted is None else [found[name] for name in wanted]
        unread = [each.name for each in columns if each.kind is None]
        if unread:
            raise ConfigError(
                f"columns {unread} of table {table.name} have types that are not read; {_NOTHING};"
                " name the other columns in source.iceberg.columns"
            )
        return columns

    @property
    def _planned(self) -> dict[str, PlannedFile]:
        return {source: planned for source, (planned, _) in self._files.items()}

    @cached_property
    def _files(self) -> dict[str, tuple[PlannedFile, AddedFile]]:
        """Source string → planned file, and what the table says about it."""
        from trainfeed.sources.iceberg_tables import digest_of_columns

        table = self._table
        added = [
            (commit, each) for commit in self._window.appends for each in table.added_files(commit)
        ]
        columns = digest_of_columns(self._columns) if added else ""
        with ThreadPoolExecutor(_THREADS, "table") as pool:
            planned = pool.map(lambda pair: self._file(pair[0], pair[1], columns), added)
            found = {
                self._name(each): (file, each)
                for file, (_, each) in zip(planned, added, strict=True)
            }
        if len(found) < len(added):
            raise SourceReplacedError(
                f"table {table.name} has data files that {self._interval.name} would read twice:"
                f" the same file was added again; {_NOTHING}; look at the table's history"
            )
        return found if self._copies is None else self._copies.in_place_of(found)

    def _name(self, added: AddedFile) -> str:
        name = added.uri.removeprefix(f"{self._table.location}/")
        return iceberg_source(self._table.name, name)

    def _file(self, commit: Commit, added: AddedFile, columns: str) -> PlannedFile:
        from trainfeed.sources.iceberg_tables import place_of

        place = place_of(added.uri)
        snapshot = PlannedSnapshot(
            table=self._table.name,
            table_uuid=self._table.uuid,
            id=commit.id,
            sequence=commit.sequence,
            columns=columns,
        )
        try:
            info = place.stat()
        except NotFoundError as error:
            raise _changed(snapshot, added.uri, "is gone") from error
        if info.size_bytes != added.size_bytes:
            now = f"has {info.size_bytes} bytes, not {added.size_bytes}"
            raise _changed(snapshot, added.uri, now)
        return PlannedFile(
            kind=_PARQUET,
            connection=self._source.catalog,
            path=place.uri,
            compression="none",
            timestamp_ms=commit.committed_ms,
            start=0,
            end=added.size_bytes,
            modified_ms=info.modified_ms,
            file_id=info.file_id,
            checksum=place.checksum(),
            snapshot=snapshot,
        )

    def _with_layouts(self, inputs: Mapping[str, PlannedFile]) -> Mapping[str, PlannedFile]:
        """Return the files with the digest of their layouts, which are read and kept."""
        if not inputs:
            return inputs
        digest = keep_layouts(self._folder, self._layouts())
        return {
            source: each.model_copy(update={"layouts": digest}) for source, each in inputs.items()
        }

    def _layouts(self) -> Layouts:
        names = sorted(self._files, key=str.encode)
        with ThreadPoolExecutor(_THREADS, "layouts") as pool:
            found = pool.map(lambda name: self._layout(*self._files[name]), names)
            types = {each.name: each.kind for each in self._columns}
            return Layouts(types, dict(zip(names, found, strict=True)))

    def _layout(self, planned: PlannedFile, added: AddedFile) -> FileLayout:
        from trainfeed.sources.iceberg_tables import stored_columns

        found = column_layout(Location.parse(planned.path), _PARQUET, planned.end, _TOLD_BY)
        if self._copies is not None:
            return FileLayout(tuple(each.name for each in self._columns), tuple(found.groups))
        where = self._table.name
        rows = sum(group.num_rows for group in found.groups)
        if rows != added.num_rows:
            raise FormatError(
                f"expected {added.num_rows} rows, as table {where} says, got {rows}; {_NOTHING}",
                path=planned.path,
            )
        names = self._table.names_in_files()
        stored = stored_columns(self._columns, found.schema, names, added, where)
        return FileLayout(tuple(stored), tuple(found.groups), stored)

    def copy_heads(self, place: Path, limit: int) -> _Copies:
        """Copy the first rows of the files, and return the copies.

        Args:
            place: An empty folder.
            limit: Number of rows in all, divided among the files.

        Raises:
            FormatError: A file is damaged.
            StorageError: A file cannot be read.
        """
        layouts, files, left = self._layouts(), dict[str, Path](), limit
        for number, (source, layout) in enumerate(layouts.files.items()):
            if not left:
                break
            # An equal share of the rows that are left, rounded up: short files leave more.
            share = min(
                -(-left // (len(layouts.files) - number)), sum(g.num_rows for g in layout.groups)
            )
            planned, _ = self._files[source]
            span = _range(planned, PlannedRange(source=source, start=0, end=planned.end))
            files[source] = place / f"{number}.{_PARQUET}"
            _copy(files[source], iter_rows(span, layouts, None), layouts, share)
            left -= share
        return _Copies(files)


@dataclass(frozen=True)
class _Copies:
    """Copies of the first rows of data files, for a preview.

    Attributes:
        files: Source string → the copy, whose columns have the names of the table.
    """

    files: Mapping[str, Path]

    def in_place_of(
        self, found: Mapping[str, tuple[PlannedFile, AddedFile]]
    ) -> dict[str, tuple[PlannedFile, AddedFile]]:
        """Return the files that have copies, with the facts of these."""
        copied = {}
        for source, path in self.files.items():
            if source not in found:
                continue
            info = Location.parse(str(path)).stat()
            update = {
                "path": str(path),
                "end": info.size_bytes,
                "modified_ms": info.modified_ms,
                "file_id": info.file_id,
                "checksum": None,
            }
            planned, added = found[source]
            copied[source] = planned.model_copy(update=update), added
        return copied


# No file of settings can have it: its value is no text.
_COPIED: Final = "copied"


def with_heads(
    spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
) -> tuple[Environment, Mapping[str, str]]:
    """Copy the first rows of an interval; return an environment with the copies, for a preview.

    Args:
        spec: A data set of a table.
        interval: The interval.
        env: Folders and connections.
        place: An empty folder.
        limit: Number of rows in all.

    Returns:
        An environment in which the copies are all that the table has of the interval, and name →
        reason of what is passed over.

    Raises:
        SourceReplacedError: A data file is gone, or is not the one that was added.
        FormatError: A file is damaged.
        StorageError: A file cannot be read.
    """
    name = table_of(spec).catalog
    catalogs, before = _without_copies(env.catalogs, name)
    whole, others = replace(env, catalogs=catalogs), before or _Copies({})
    found = TableInputs(spec, whole, _folder(spec, env), interval)
    if not found.inputs(None):
        return env, found.passed_over
    # Another member of a union may have copies of a table of the same catalogue.
    copies = place / f"table-{len(others.files)}"
    copies.mkdir()
    files = {**others.files, **found.copy_heads(copies, limit).files}
    known = {**env.catalogs[name], _COPIED: _Copies(files)}
    return replace(env, catalogs={**env.catalogs, name: known}), found.passed_over


def _folder(spec: DatasetSpec, env: Environment) -> DatasetFolder:
    return DatasetFolder(Path(env.root), spec.name)


def _without_copies(
    catalogs: Mapping[str, Mapping[str, Any]], catalog: str
) -> tuple[Mapping[str, Mapping[str, Any]], _Copies | None]:
    known = dict(catalogs.get(catalog, {}))
    copies = known.pop(_COPIED, None)
    if not isinstance(copies, _Copies):
        return catalogs, None
    return {**catalogs, catalog: known}, copies


def _copy(path: Path, rows: Iterator[pa.RecordBatch], layouts: Layouts, count: int) -> None:
    with closing(_generated(rows)) as found, pq.ParquetWriter(path, pa.schema(layouts.types)) as to:
        for batch in found if count else ():
            part = batch.slice(0, count)
            to.write_batch(pa.RecordBatch.from_struct_array(part.column(FIELDS)))
            count -= part.num_rows
            if not count:
                return


def _generated(rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    yield from rows


def _changed(snapshot: PlannedSnapshot, path: str, what: str) -> SourceReplacedError:
    return SourceReplacedError(
        f"data file {path} of table {snapshot.table}, which snapshot {snapshot.id} added, {what};"
        f" nothing was published; if the snapshot was expired, bring its files back, or run again"
        " with --allow-gap WHY; expire snapshots only after the builds that read them"
    )


# --- Reads the planned data files, and makes sure that they are those of the plan


def check_data_files(stage: Stage, sources: Iterable[str]) -> None:
    """Compare data files with the plan.

    Raises:
        SourceReplacedError: One is gone or was replaced; the message names table and snapshot.
    """
    planned = [_data_file(stage, source) for source in sorted(sources)]
    with ThreadPoolExecutor(_THREADS, "table") as pool:
        list(pool.map(_check, planned))


def iter_data_file(stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one range of a data file.

    The batches are valid only after the iterator has ended without an error.

    Raises:
        SourceReplacedError: The file is gone, or is not the one that was planned.
        FormatError: It is damaged.
        StorageError: It cannot be read.
    """
    planned = _data_file(stage, piece.source)
    _check(planned, asks_checksum=False)
    rows, columns = _range(planned, piece), table_of(stage.spec).columns
    try:
        yield from iter_rows(rows, kept_layouts(stage.folder, planned), columns)
    except (FormatError, StorageError):
        # If the file changed meanwhile, the change is the cause, not the damage that was seen.
        _check(planned, asks_checksum=False)
        raise
    _check(planned, asks_checksum=piece.end - piece.start == planned.end)


def _range(planned: PlannedFile, piece: PlannedRange) -> RowRange:
    return RowRange(
        location=Location.parse(planned.path),
        file_format=_PARQUET,
        source=piece.source,
        size_bytes=planned.end,
        start=piece.start,
        end=piece.end,
        timestamp_ms=planned.timestamp_ms,
        told_by=_TOLD_BY,
    )


def _data_file(stage: Stage, source: str) -> PlannedFile:
    planned = stage.plan.inputs[source]
    if not isinstance(planned, PlannedFile) or planned.snapshot is None:
        raise TypeError(f"expected {source} to be a data file of a table")
    return planned


def _check(planned: PlannedFile, *, asks_checksum: bool = True) -> None:
    """Compare a data file with its facts in the plan."""
    place, snapshot = Location.parse(planned.path), planned.snapshot
    if snapshot is None:
        raise TypeError(f"expected a data file of a table, got {planned.path}")
    try:
        changes = planned.changes_at(place, asks_checksum=asks_checksum)
    except NotFoundError as error:
        raise _changed(snapshot, planned.path, "is gone") from error
    if changes:
        raise _changed(snapshot, planned.path, f"was replaced: {', '.join(changes)}")
