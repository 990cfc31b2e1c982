"""Catalogues of Iceberg in databases: where one has the metadata of a table.

A database is only read: its table ``iceberg_tables``, as all SQL and JDBC catalogues have it. The
clients of pyiceberg would make the table in any database, and wait for an answer without an end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from trainfeed.core.patience import answer_within
from trainfeed.core.printable_text import printable, url_as_shown, without_secrets
from trainfeed.errors import ConfigError, SourceUnreachableError, TableNotFoundError

try:
    import sqlalchemy
except ImportError as error:  # pragma: no cover - the environment of the tests has it
    raise ConfigError(
        f"catalogues in databases need a package that is not installed: {error.name}; nothing was"
        " read or published; install trainfeed[iceberg]"
    ) from error

# For connection and answer together. Drivers have limits of their own under many names, and none
# for a server that accepts a connection and is silent.
_ANSWER_SECONDS: Final = 30.0
_MOST_SHOWN: Final = 300
_IN_SQLITE: Final = "sqlite"
_TABLES: Final = "iceberg_tables"
_LOOKUP: Final = (
    f"SELECT metadata_location FROM {_TABLES}"  # noqa: S608 - the name is a constant
    " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)
# What databases say when another try cannot help; drivers have no number for it.
_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|access denied|login failed"
    r"|logon denied|(role|database) \S+ does not exist|unknown database",
    re.IGNORECASE,
)


def metadata_place(
    url: str, username: str | None, password: str | None, catalog: str, table: str
) -> str:
    """Return the URI of the metadata of a table, from the database of a catalogue.

    Args:
        url: URL of the database, such as ``sqlite:////lake/catalog.db``, without credentials.
        username: Account of the database; None for none.
        password: Its password.
        catalog: Name of the catalogue in the database.
        table: Namespace and name of the table.

    Raises:
        ConfigError: The URL is none, its driver is not installed, the database refuses the account,
            or there is no catalogue.
        SourceUnreachableError: The database does not answer, or not now.
        TableNotFoundError: The catalogue has no such table.
    """
    namespace, _, name = table.rpartition(".")
    named = {"catalog": catalog, "namespace": namespace, "name": name}
    shown, engine = url_as_shown(url), _engine(url, username, password)
    try:
        has_tables, found = answer_within(_ANSWER_SECONDS, _asked, engine, named)
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise _failure(error, shown) from error
    except OSError as error:
        raise _unreachable(shown, error) from error
    except (TypeError, ValueError) as error:
        raise _no_url(shown, error) from error
    if not has_tables:
        raise ConfigError(
            f"expected the database of a catalogue with the table {_TABLES} at {shown}, got"
            " another; nothing was read or published; correct the connection"
        )
    if not found:
        raise TableNotFoundError(
            f"expected table {table!r} in the catalogue {catalog!r} at {shown}, got none; nothing"
            " was read or published; correct source.iceberg.table, or 'catalog' of the connection"
        )
    return found


def _asked(engine: sqlalchemy.Engine, named: Mapping[str, str]) -> tuple[bool, str | None]:
    """Return whether a database is one of catalogues, and what it has for a table."""
    with engine.connect() as connection:
        if not sqlalchemy.inspect(connection).has_table(_TABLES):
            return False, None
        row = connection.execute(sqlalchemy.text(_LOOKUP), named).first()
        return True, None if row is None or not row[0] else str(row[0])


def _engine(url: str, username: str | None, password: str | None) -> sqlalchemy.Engine:
    shown = url_as_shown(url)
    try:
        place = sqlalchemy.make_url(url)
        if username is not None:
            place = place.set(username=username, password=password)
        if place.get_backend_name() == _IN_SQLITE:
            place = _read_only(place, shown)
        engine = sqlalchemy.create_engine(place, poolclass=sqlalchemy.pool.NullPool)
    except (sqlalchemy.exc.ArgumentError, ImportError, TypeError, ValueError) as error:
        raise _no_url(shown, error) from error
    if engine.dialect.is_async:
        raise _no_url(shown, TypeError("its driver is one for asyncio"))
    return engine


def _read_only(place: sqlalchemy.URL, shown: str) -> sqlalchemy.URL:
    """Return the place of a file of SQLite with which the driver makes no file."""
    path = place.database or ""
    try:
        why = None if Path(path).is_file() else "none"
    except OSError as error:
        why = str(error)
    if why is not None:
        raise SourceUnreachableError(
            f"expected the file of a catalogue at {shown}, got {why}; nothing was read or"
            " published; correct the connection, or mount its folder"
        )
    # In a URI, a path has its special characters as numbers.
    options = {"mode": "ro", "uri": "true"}
    return place.set(database=f"file:{quote(path)}").update_query_dict(options)


def _failure(
    error: sqlalchemy.exc.SQLAlchemyError, shown: str
) -> ConfigError | SourceUnreachableError:
    """Return the error for what a database, its driver or SQLAlchemy refused."""
    cause = getattr(error, "orig", None) or error
    may_pass = isinstance(
        error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError
    ) or (isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated)
    if may_pass and not _REFUSED.search(str(cause)):
        return _unreachable(shown, cause)
    return ConfigError(
        f"the catalogue at {shown} refuses to be read: {_said(cause)}; nothing was read or"
        " published; correct url, username and password of the connection, or the rights of the"
        " account"
    )


def _unreachable(shown: str, cause: BaseException) -> SourceUnreachableError:
    return SourceUnreachableError(
        f"the catalogue at {shown} cannot be read: {_said(cause)}; nothing was read or published;"
        " start its database, or correct the connection, then run again"
    )


def _no_url(shown: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"expected the URL of a database that SQLAlchemy opens, got {shown}:"
        f" {type(error).__name__}: {_said(error)}; nothing was read or published; correct the"
        " connection, or install the driver"
    )


def _said(cause: BaseException) -> str:
    """Return the words of a driver on one line, without what it repeats of secrets."""
    return printable(without_secrets(" ".join(str(cause).split()))[:_MOST_SHOWN])
