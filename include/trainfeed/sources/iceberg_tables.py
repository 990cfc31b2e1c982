"""Tables of Iceberg: the snapshots of the branch main, the files that they added, the columns.

The one home of pyiceberg, which reads metadata and manifests here and nothing else: files are
opened by trainfeed's own file systems, and rows are read as those of any Parquet file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from trainfeed.core import canonical_json
from trainfeed.errors import (
    ConfigError,
    FormatError,
    SourceReplacedError,
    SourceUnreachableError,
    TableNotFoundError,
    TrainFeedError,
)
from trainfeed.files.stores import Location
from trainfeed.preprocessing.column_types import type_as_read, widened
from trainfeed.sources.avro_files import AVRO_MAGIC, check_container

try:
    import sqlalchemy
    from pyiceberg.io import FileIO, InputFile, OutputFile
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.manifest import FileFormat, ManifestContent, ManifestEntryStatus
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.transforms import IdentityTransform
except ImportError as error:  # pragma: no cover - the environment of the tests has it
    raise ConfigError(
        f"tables of Iceberg need a package that is not installed: {error.name}; nothing was read or"
        " published; install trainfeed[iceberg]"
    ) from error

# --- What a plan needs to know of a table

_MOST_BYTES: Final = 512 << 20
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

    @classmethod
    def of_file(cls, name: str, uri: str) -> IcebergTable:
        """Return the table with its metadata in a file.

        Raises:
            FormatError: The file is damaged.
            StorageError: It cannot be read.
        """
        with _readable(name, uri):
            return cls._of(name, FromInputFile.table_metadata(_Input(uri)))

    @classmethod
    def of_json(cls, name: str, metadata: dict[str, Any], told_by: str) -> IcebergTable:
        """Return the table with its metadata from a catalogue; ``told_by`` is its URL.

        Raises:
            FormatError: It is something else.
        """
        with _readable(name, told_by):
            return cls._of(name, TableMetadataUtil.parse_obj(metadata))

    @classmethod
    def _of(cls, name: str, metadata: TableMetadata) -> IcebergTable:
        known = {each.snapshot_id: each for each in metadata.snapshots}
        commits, snapshot = list[Commit](), metadata.current_snapshot()
        while snapshot is not None:
            commits.append(_commit(snapshot))
            parent = snapshot.parent_snapshot_id
            if len(commits) > len(known):
                raise ValueError(f"snapshot {parent} comes before itself")
            snapshot = None if parent is None else known.get(parent)
        commits.reverse()
        is_whole = not commits or commits[0].parent is None
        location = metadata.location.rstrip("/")
        return cls(name, str(metadata.table_uuid), location, commits, is_whole, metadata)

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
        with _readable(where, snapshot.manifest_list):
            found = list(self._added(snapshot, where))
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
                type_as_read(arrow.type),
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
        where: Table and snapshot, for messages.

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
    """Refuse a column that the file lacks, and whose values are no null."""
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


# --- Where a catalogue in a database has the metadata of a table

_IN_SQLITE: Final = "sqlite"
_TABLES: Final = "iceberg_tables"
_LOOKUP: Final = (
    f"SELECT metadata_location FROM {_TABLES}"  # noqa: S608 - nobody else writes it
    " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)


def metadata_place(
    url: str, username: str | None, password: str | None, catalog: str, table: str
) -> str:
    """Return the URI of the metadata of a table, from the database of a catalogue.

    The database is only read: the table ``iceberg_tables`` as all SQL and JDBC catalogues have it.

    Args:
        url: URL of the database, such as ``sqlite:////lake/catalog.db``, without credentials.
        username: Account of the database; None for none.
        password: Its password.
        catalog: Name of the catalogue in the database.
        table: Namespace and name of the table.

    Raises:
        ConfigError: The URL is none, its driver is not installed, or there is no catalogue.
        SourceUnreachableError: The database does not answer.
        TableNotFoundError: The catalogue has no such table.
    """
    namespace, _, name = table.rpartition(".")
    named = {"catalog": catalog, "namespace": namespace, "name": name}
    engine = _engine(url, username, password)
    try:
        with engine.connect() as connection:
            if not sqlalchemy.inspect(connection).has_table(_TABLES):
                raise ConfigError(
                    f"expected the database of a catalogue with the table {_TABLES} at {url}, got"
                    " another; nothing was read or published; correct the connection"
                )
            row = connection.execute(sqlalchemy.text(_LOOKUP), named).first()
    except sqlalchemy.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or type(error).__name__
        raise SourceUnreachableError(
            f"the catalogue at {url} cannot be read: {cause}; nothing was read or published; start"
            " its database, or correct the connection, then run again"
        ) from error
    finally:
        engine.dispose()
    if row is None or not row[0]:
        raise TableNotFoundError(
            f"expected table {table!r} in the catalogue {catalog!r} at {url}, got none; nothing was"
            " read or published; correct source.iceberg.table, or 'catalog' of the connection"
        )
    return str(row[0])


def _engine(url: str, username: str | None, password: str | None) -> sqlalchemy.Engine:
    try:
        place = sqlalchemy.make_url(url)
        if username is not None:
            place = place.set(username=username, password=password)
        if place.get_backend_name() == _IN_SQLITE:
            path = place.database or ""
            if not Path(path).is_file():
                raise SourceUnreachableError(
                    f"expected the file of a catalogue at {url}, got none; nothing was read or"
                    " published; correct the connection, or mount its folder"
                )
            # Otherwise the driver makes a file that is not there.
            place = place.set(database=f"file:{path}").update_query_dict(
                {"mode": "ro", "uri": "true"}
            )
        return sqlalchemy.create_engine(place, poolclass=sqlalchemy.pool.NullPool)
    except (sqlalchemy.exc.ArgumentError, ImportError) as error:
        raise ConfigError(
            f"expected the URL of a database that SQLAlchemy opens, got {url}:"
            f" {type(error).__name__}: {error}; nothing was read or published"
        ) from error


# --- Files of metadata, opened by the file systems of trainfeed


def place_of(uri: str) -> Location:
    """Return the location of a file that a table names.

    Raises:
        ConfigError: It lies where trainfeed has no file system, such as in an object store.
    """
    # Java writes a local file with one slash.
    is_local = uri.startswith("file:/") and not uri.startswith("file://")
    try:
        place = Location.parse(uri.removeprefix("file:") if is_local else uri)
        if place.uri.startswith("s3://"):
            raise ConfigError("workers get no keys of object stores for tables")  # noqa: TRY301
    except ConfigError as error:
        raise ConfigError(
            f"a table has the file {uri}, which trainfeed cannot open: {error}; nothing was read or"
            " published; tables on hdfs:// and on mounted folders are read"
        ) from error
    return place


class _Input(InputFile):
    """A file of metadata, which is read as a whole."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._place = place_of(location)

    def __len__(self) -> int:
        return self._place.stat().size_bytes

    def exists(self) -> bool:
        return self._place.exists()

    def open(self, seekable: bool = True) -> io.BytesIO:  # noqa: ARG002
        data = self._place.read_bytes(max_bytes=_MOST_BYTES)
        if data.startswith(AVRO_MAGIC):
            # The reader of manifests believes the length of a text, and reads behind the end.
            try:
                check_container(io.BytesIO(data), len(data))
            except FormatError as error:
                raise ValueError(str(error)) from error
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
            f"expected the metadata of table {what}, that is whole: {type(error).__name__}:"
            f" {str(error)[:300]}; nothing was read or published",
            path=place,
        ) from error
