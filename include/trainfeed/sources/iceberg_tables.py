"""Tables of Iceberg: the snapshots of the branch main, the files that they added, the columns.

The one home of pyiceberg, which reads metadata and manifests here and nothing else: files are
opened by trainfeed's own file systems, and rows are read as those of any Parquet file.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from trainfeed.core import canonical_json
from trainfeed.errors import (
    ConfigError,
    FormatError,
    NotFoundError,
    SourceReplacedError,
    TrainFeedError,
)
from trainfeed.files.stores import Location
from trainfeed.preprocessing.column_types import type_as_read, widened
from trainfeed.sources.avro_files import check_container

try:
    from pyiceberg.io import FileIO, InputFile, OutputFile
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.manifest import FileFormat, ManifestContent, ManifestEntryStatus
    from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
    from pyiceberg.table.refs import MAIN_BRANCH
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.transforms import IdentityTransform
except ImportError as error:  # pragma: no cover - the environment of the tests has it
    raise ConfigError(
        f"tables of Iceberg need a package that is not installed: {error.name}; nothing was read or"
        " published; install trainfeed[iceberg]"
    ) from error

# --- What a plan needs to know of a table

_ID: Final = b"PARQUET:field_id"


class Commit(NamedTuple):
    """A snapshot of the branch main.

    Attributes:
        id: Its id.
        parent: Id of the one before it; None for the first one of the table.
        sequence: Its sequence number; 0 in tables of format 1.
        committed_ms: Time of the commit by the clock of who committed, milliseconds since 1970.
        operation: ``append``, ``replace``, ``overwrite`` or ``delete``.
        counts: Whole numbers of its summary, such as ``added-records``, as far as it has them.
        schema: Number of the schema with which it was written; None in old tables.
    """

    id: int
    parent: int | None
    sequence: int
    committed_ms: int
    operation: str
    counts: Mapping[str, int]
    schema: int | None


class AddedFile(NamedTuple):
    """A data file that a snapshot added.

    Attributes:
        uri: URI or absolute path, as the table names it.
        size_bytes: Length of the file.
        num_rows: Number of its rows.
        partitioned_by: Ids of the columns whose values the partition of the file has.
    """

    uri: str
    size_bytes: int
    num_rows: int
    partitioned_by: frozenset[int]


class TableColumn(NamedTuple):
    """A column of a table.

    Attributes:
        id: Its id, which stays when it is renamed.
        name: Its name.
        field: Its type with the ids of inner fields, as an Arrow field.
        kind: The type in which it is read; None if none holds its values.
        has_default: Whether rows of files without the column have a value other than null.
    """

    id: int
    name: str
    field: pa.Field
    kind: pa.DataType | None
    has_default: bool


@dataclass(frozen=True)
class IcebergTable:
    """A table as its catalogue had it when it was asked.

    Attributes:
        name: Namespace and name.
        uuid: The table's own id.
        location: URI of the table's folder, without a slash at its end.
        commits: The snapshots of the branch main that are still there, the oldest first.
        is_whole: Whether none before them was expired.
    """

    name: str
    uuid: str
    location: str
    commits: Sequence[Commit]
    is_whole: bool
    _metadata: TableMetadata = field(repr=False, compare=False)
    _variants: frozenset[int] = field(repr=False, compare=False)

    @classmethod
    def of_file(cls, name: str, uri: str) -> IcebergTable:
        """Return the table with its metadata in a file.

        Raises:
            FormatError: The file is damaged.
            NotFoundError: It is gone.
            StorageError: It cannot be read.
        """
        try:
            with _readable(name, uri):
                return cls._of(name, _json_of(place_of(uri).read_bytes(max_bytes=_MOST_BYTES)))
        except NotFoundError as error:
            raise NotFoundError(
                f"expected the metadata of table {name} at {uri}, where its catalogue has it, got"
                " none; nothing was read or published; run again, or restore the file"
            ) from error

    @classmethod
    def of_json(cls, name: str, metadata: dict[str, Any], told_by: str) -> IcebergTable:
        """Return the table with its metadata from a catalogue; ``told_by`` is its URL.

        Raises:
            FormatError: It is something else.
        """
        with _readable(name, told_by):
            return cls._of(name, metadata)

    @classmethod
    def _of(cls, name: str, found: Mapping[str, Any]) -> IcebergTable:
        readable, variants = _without_variants(found)
        metadata = TableMetadataUtil.parse_obj(readable)
        known = {each.snapshot_id: each for each in metadata.snapshots}
        commits, snapshot = list[Commit](), _last_snapshot(metadata, known)
        while snapshot is not None:
            commits.append(_commit(snapshot))
            parent = snapshot.parent_snapshot_id
            if len(commits) > len(known):
                raise ValueError(f"snapshot {parent} comes before itself")
            snapshot = None if parent is None else known.get(parent)
        commits.reverse()
        is_whole = not commits or commits[0].parent is None
        location = metadata.location.rstrip("/")
        uuid = str(metadata.table_uuid)
        return cls(name, uuid, location, commits, is_whole, metadata, variants)

    def added_files(self, commit: Commit) -> list[AddedFile]:
        """Return the data files that a snapshot added, by their URI.

        Raises:
            SourceReplacedError: A manifest is gone: the snapshot was expired after the catalogue
                was asked. Or it added deletes, which an append has none of.
            FormatError: A manifest is damaged, or the snapshot counted other files and rows.
            ConfigError: A data file is no Parquet.
            StorageError: A manifest cannot be read.
        """
        snapshot = self._metadata.snapshot_by_id(commit.id)
        if snapshot is None:
            raise TypeError(f"expected a snapshot of table {self.name}, got {commit.id}")
        where = f"{self.name}, snapshot {commit.id}"
        try:
            with _readable(where, snapshot.manifest_list):
                found = list(self._added(snapshot, where))
        except NotFoundError as error:
            raise SourceReplacedError(
                f"expected the manifests of table {where}, got none: {error}; nothing was read or"
                " published; if the snapshot was expired meanwhile, run again; expire snapshots"
                " only after the builds that read them"
            ) from error
        names = [each.uri for each in found]
        rows = sum(each.num_rows for each in found)
        counted = {"added-data-files": len(found), "added-records": rows}
        for name, number in counted.items():
            if commit.counts.get(name, number) != number:
                raise FormatError(
                    f"expected {name} {commit.counts[name]} of table {where}, as its summary"
                    f" says, got {number} in its manifests; nothing was read or published",
                    path=snapshot.manifest_list,
                )
        if len(set(names)) < len(names):
            raise FormatError(
                f"expected each data file of table {where} once, got one twice; nothing was read"
                " or published",
                path=snapshot.manifest_list,
            )
        return sorted(found)

    def _added(self, snapshot: Snapshot, where: str) -> Iterator[AddedFile]:
        files = _Files()
        specs = self._metadata.specs()
        for manifest in snapshot.manifests(files):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            if manifest.content != ManifestContent.DATA:
                raise SourceReplacedError(
                    f"table {where} appended deletes of rows, not rows alone; nothing was read or"
                    " published"
                )
            identities = frozenset(
                each.source_id
                for each in specs[manifest.partition_spec_id].fields
                if isinstance(each.transform, IdentityTransform)
            )
            for entry in manifest.fetch_manifest_entry(files):
                if entry.status != ManifestEntryStatus.ADDED:
                    continue
                data = entry.data_file
                if data.file_format != FileFormat.PARQUET:
                    raise ConfigError(
                        f"expected data files of Parquet in table {where}, got"
                        f" {data.file_format.value} in {data.file_path}; nothing was read or"
                        " published; rewrite the table's files as Parquet"
                    )
                size, rows = data.file_size_in_bytes, data.record_count
                yield AddedFile(data.file_path, size, rows, identities)

    def columns(self, schema: int | None) -> list[TableColumn]:
        """Return the columns of a schema in its order; None is the schema of now.

        Raises:
            FormatError: The table has no such schema.
        """
        metadata = self._metadata
        with _readable(self.name, self.location):
            found = metadata.schema() if schema is None else metadata.schema_by_id(schema)
            if found is None:
                raise FormatError(
                    f"expected schema {schema} in the metadata of table {self.name}, got none;"
                    " nothing was read or published"
                )
            fields = schema_to_pyarrow(found, include_field_ids=True)
        return [
            TableColumn(
                each.field_id,
                each.name,
                arrow,
                None if each.field_id in self._variants else type_as_read(arrow.type),
                each.initial_default is not None,
            )
            for each, arrow in zip(found.fields, fields, strict=True)
        ]

    def names_in_files(self) -> dict[str, int]:
        """Return name → id of the columns of files whose columns have no ids of their own.

        Raises:
            FormatError: The table's property that says it is damaged.
        """
        with _readable(self.name, self.location):
            mapping = self._metadata.name_mapping()
        if mapping is None:
            return {}
        return {
            name: each.field_id
            for each in mapping.root
            for name in each.names
            if each.field_id is not None
        }


def _last_snapshot(metadata: TableMetadata, known: Mapping[int, Snapshot]) -> Snapshot | None:
    """Return the last snapshot of the branch main; None for a table without one."""
    current, main = metadata.current_snapshot_id, metadata.refs.get(MAIN_BRANCH)
    # A part of the metadata is missing: taken as it is, the table would have no rows.
    if main is not None and main.snapshot_id != current:
        raise ValueError(f"the table is at snapshot {current}, its branch main at another")
    if current is not None and current not in known:
        raise ValueError(f"the table is at snapshot {current}, which is none of its snapshots")
    return None if current is None else known[current]


def _commit(snapshot: Snapshot) -> Commit:
    summary = snapshot.summary
    # Without a summary nothing says that rows were appended alone.
    operation = "overwrite" if summary is None else summary.operation.value
    texts = {} if summary is None else summary.additional_properties
    return Commit(
        id=snapshot.snapshot_id,
        parent=snapshot.parent_snapshot_id,
        sequence=snapshot.sequence_number or 0,
        committed_ms=snapshot.timestamp_ms,
        operation=operation,
        counts={name: int(text) for name, text in texts.items() if text.isdecimal()},
        schema=snapshot.schema_id,
    )


# --- Where a file of the table has the table's columns


def digest_of_columns(columns: Sequence[TableColumn]) -> str:
    """Return the digest of ids, names and types of columns, which decides what rows are read."""
    return canonical_json.sha256_of([_shape(each.field, str(each.kind)) for each in columns])


def stored_columns(
    columns: Sequence[TableColumn],
    stored: pa.Schema,
    names: Mapping[str, int],
    added: AddedFile,
    where: str,
) -> dict[str, str | None]:
    """Return name of a column of the table → name in the file; None where the file has none.

    Args:
        columns: The columns that are read.
        stored: The columns of the file.
        names: Name → id, for files whose columns have no ids.
        added: The file.
        where: Name of the table, for messages.

    Raises:
        FormatError: A column of the file does not hold the values of the table's.
        ConfigError: Rows of the file have values for a column that are not in the file.
    """
    by_id = {}
    for each in stored:
        number = _field_id(each)
        if number is None:
            number = names.get(each.name)
        if number is not None:
            by_id[number] = each
    found: dict[str, str | None] = {}
    for column in columns:
        own = by_id.get(column.id)
        if own is None:
            _require_null(column, added, where)
        else:
            _require_held(column, own, added, where)
        found[column.name] = None if own is None else own.name
    return found


def _require_null(column: TableColumn, added: AddedFile, where: str) -> None:
    """Refuse a column that the file lacks, and that is not null in its rows."""
    has_other = column.has_default or column.id in added.partitioned_by
    if has_other:
        why = "its default" if column.has_default else "the partition of the file"
        raise ConfigError(
            f"column {column.name!r} of table {where} is not in {added.uri}: its value is {why},"
            " which is not read; nothing was read or published; name the other columns in"
            " source.iceberg.columns, or rewrite the file"
        )


def _require_held(column: TableColumn, own: pa.Field, added: AddedFile, where: str) -> None:
    kind = type_as_read(own.type)
    is_held = kind is not None and column.kind is not None
    is_held = is_held and widened(column.kind, kind) == column.kind
    # Inner fields are read by their place, so they have to be the same ones.
    is_same = not _has_ids(own) or _inner(own) == _inner(column.field)
    if not is_held or not is_same:
        what = "the one does not hold the other" if is_same else "fields within it have other ids"
        raise FormatError(
            f"column {column.name!r} of table {where} is {column.field.type} at the end of the"
            f" interval, and {own.type} as {own.name!r} in a file: {what}; nothing was read or"
            " published; name the other columns in source.iceberg.columns, or rewrite the file",
            path=added.uri,
        )


def _field_id(each: pa.Field) -> int | None:
    text = (each.metadata or {}).get(_ID)
    return None if text is None else int(text)


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_struct(kind):
        return list(kind.fields)
    return [kind.value_field] if pa.types.is_nested(kind) else []


def _has_ids(each: pa.Field) -> bool:
    return _field_id(each) is not None


def _inner(each: pa.Field) -> list[Any]:
    """Return the ids of the fields within a field."""
    return [[_field_id(part), _inner(part)] for part in _inner_fields(each.type)]


def _shape(each: pa.Field, kind: str) -> list[Any]:
    return [_field_id(each), each.name, kind, _inner(each)]


# --- Files of metadata, opened by the file systems of trainfeed

_MOST_BYTES: Final = 512 << 20
_GZIP: Final = b"\x1f\x8b"
# Where a type in the metadata has the types within it, fields aside.
_INNER: Final = ("type", "element", "key", "value")


def place_of(uri: str) -> Location:
    """Return the location of a file that a table names.

    Raises:
        ConfigError: It lies where trainfeed has no file system, such as in an object store.
    """
    # Java writes a local file with one slash.
    is_local = uri.startswith("file:/") and not uri.startswith("file://")
    try:
        place = Location.parse(uri.removeprefix("file:") if is_local else uri)
    except ConfigError as error:
        raise _not_opened(uri, str(error)) from error
    if place.uri.startswith("s3://"):
        raise _not_opened(uri, "workers get no keys of object stores for tables")
    return place


def _not_opened(uri: str, why: str) -> ConfigError:
    return ConfigError(
        f"a table has the file {uri}, which trainfeed cannot open: {why}; nothing was read or"
        " published; tables on hdfs:// and on mounted folders are read"
    )


def _json_of(data: bytes) -> dict[str, Any]:
    """Return the object of JSON in a file, which may be compressed."""
    if data.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        data = stream.decompress(data, _MOST_BYTES)
        if not stream.eof:
            raise ValueError(f"its gzip stream is cut, or has more than {_MOST_BYTES} bytes")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise TypeError("no object of JSON")
    return found


def _without_variants(found: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[int]]:
    """Return metadata without the type ``variant``, and the ids of the columns that have it.

    pyiceberg refuses a table for such a column, although a data set may read only the others.
    """
    columns = [each for schema in found.get("schemas", []) for each in schema["fields"]]
    ids = frozenset(each["id"] for each in columns if _without_variant(each) != each)
    if not ids:
        return {**found}, ids
    schemas = [
        {**schema, "fields": [_without_variant(each) for each in schema["fields"]]}
        for schema in found["schemas"]
    ]
    return {**found, "schemas": schemas}, ids


def _without_variant(kind: Any) -> Any:
    """Return a type of JSON, or a field with its type, with ``binary`` in place of ``variant``."""
    if kind == "variant":
        return "binary"
    if not isinstance(kind, dict):
        return kind
    inner = {name: _without_variant(kind[name]) for name in _INNER if name in kind}
    if "fields" in kind:
        inner["fields"] = [_without_variant(each) for each in kind["fields"]]
    return {**kind, **inner}


class _Input(InputFile):
    """A manifest or a list of manifests, which is read as a whole."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._place = place_of(location)

    def __len__(self) -> int:
        return self._place.stat().size_bytes

    def exists(self) -> bool:
        return self._place.exists()

    def open(self, seekable: bool = True) -> io.BytesIO:  # noqa: ARG002
        data = self._place.read_bytes(max_bytes=_MOST_BYTES)
        # The reader of manifests believes the length of a text, reads behind the end, and does not
        # ask whether the file is one of Avro.
        try:
            check_container(io.BytesIO(data), len(data))
        except FormatError as error:
            raise ValueError(f"{self.location}: {error}") from error
        return io.BytesIO(data)


class _Files(FileIO):
    """The file systems of trainfeed, for reading: no property of a table names another class."""

    def new_input(self, location: str) -> InputFile:
        return _Input(location)

    def new_output(self, location: str) -> OutputFile:
        raise TypeError(f"expected a file to read, got {location} to write")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise TypeError(f"expected a file to read, got {location} to delete")


@contextmanager
def _readable(what: str, place: str) -> Iterator[None]:
    """Raise what damaged metadata causes as FormatError with its place."""
    try:
        yield
    except TrainFeedError:
        raise
    except Exception as error:
        # The parsers of metadata, of JSON and of Avro raise errors of many kinds.
        raise FormatError(
            f"expected whole metadata of table {what}, got {type(error).__name__}:"
            f" {str(error)[:300]}; nothing was read or published",
            path=place,
        ) from error
