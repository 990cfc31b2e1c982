"""Catalogues of tables: their settings, and the table of a name.

A catalogue is a server with the REST interface of Iceberg, or a database as those of SQL and JDBC
catalogues are. Two requests need no client library: the server says nothing about which classes
this process loads, and every request ends in time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from trainfeed.core import canonical_json
from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import (
    ConfigError,
    FormatError,
    IngestError,
    ServiceError,
    SourceUnreachableError,
    TableNotFoundError,
)
from trainfeed.serving.server import Connections, HttpSettings, NoAnswerError, Reply, named_settings

if TYPE_CHECKING:
    from trainfeed.sources.iceberg_tables import IcebergTable

# --- The settings of a catalogue: the installation's, not those of a data set

_OF_REST: Final = ("warehouse", "credential", "scope")
_OF_DATABASE: Final = ("url", "catalog", "username", "password")
_SCOPE: Final = "catalog"
# An account in a URL, as SQLAlchemy finds it: a password may have any character but ``@``.
_ACCOUNT: Final = re.compile(r"[^:/]+://[^:/]*(:[^@]*)?@")
# What drivers of databases take as one in the query.
_IN_QUERY: Final = frozenset({"user", "username", "uid", "password", "passwd", "pwd"})
_REMEDY: Final = (
    "correct it in the file of TRAINFEED_CATALOGS, in Airflow in the extras of the connection;"
    " nothing was read or published"
)


@dataclass(frozen=True)
class RestCatalog:
    """A catalogue with the REST interface.

    Attributes:
        http: Address and credentials.
        warehouse: Name of the warehouse in it; None for that of the server.
        credential: ``id:secret`` of an account that gets a token from the catalogue; None for none.
        scope: What the token is asked for.
    """

    http: HttpSettings
    warehouse: str | None = None
    credential: str | None = field(default=None, repr=False)
    scope: str = _SCOPE

    @property
    def url(self) -> str:
        """The address, for messages."""
        return self.http.url


@dataclass(frozen=True)
class DatabaseCatalog:
    """A catalogue in a database.

    Attributes:
        url: URL of the database, as SQLAlchemy has it, without credentials.
        catalog: Name of the catalogue in the database.
        username: Account of the database; None for none.
        password: Its password.
    """

    url: str
    catalog: str = "default"
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def catalog_of(
    catalogs: Mapping[str, Mapping[str, Any]], connection: str
) -> RestCatalog | DatabaseCatalog:
    """Return the settings of a connection.

    Args:
        catalogs: Settings by connection id.
        connection: The id.

    Raises:
        ConfigError: There are none, or one is wrong; the message has no values, which may be
            secrets.
    """
    advice = (
        "set TRAINFEED_CATALOG for catalog_default, or add to the file of TRAINFEED_CATALOGS:"
        f" {connection}: {{url: 'https://catalog.example', warehouse: lake}}; in Airflow add the"
        " connection; nothing was read or published"
    )
    found = dict(named_settings(catalogs, connection, "catalogue", advice))
    scheme, is_url, _ = str(found.get("url", "")).partition("://")
    if not is_url or scheme.lower() in {"http", "https"}:
        own: dict[str, Any] = {name: found.pop(name) for name in _OF_REST if name in found}
        _require_texts(own, connection)
        http = HttpSettings.of(found, connection, _REMEDY)
        _require_one_account(http, own, connection)
        return RestCatalog(http, **own)
    return _database(found, connection)


def _refusal(what: str, connection: str) -> ConfigError:
    return ConfigError(f"expected {what} in the settings of {connection!r}; {_REMEDY}")


def _require_texts(found: Mapping[str, Any], connection: str) -> None:
    for name, value in found.items():
        if not isinstance(value, str) or not value or not value.isprintable():
            raise _refusal(f"{name} as a text without control characters", connection)


def _require_one_account(http: HttpSettings, own: Mapping[str, str], connection: str) -> None:
    if "credential" not in own:
        return
    if http.authorization():
        raise _refusal("credential, or token, or username with password", connection)
    if ":" not in own["credential"]:
        raise _refusal("credential as id:secret", connection)
    # The same rule as for a token: a secret goes to another machine only with TLS.
    HttpSettings.of({"url": http.url, "token": "x"}, connection, _REMEDY)


def _database(found: Mapping[str, Any], connection: str) -> DatabaseCatalog:
    if unknown := sorted(found.keys() - set(_OF_DATABASE)):
        raise _refusal(f"only {', '.join(_OF_DATABASE)}, got {', '.join(unknown)}", connection)
    _require_texts(found, connection)
    query = parse_qsl(found["url"].partition("?")[2])
    if _ACCOUNT.match(found["url"]) or any(name.lower() in _IN_QUERY for name, _ in query):
        raise _refusal("url without credentials, which are username and password", connection)
    if ("username" in found) != ("password" in found):
        raise _refusal("username with password", connection)
    return DatabaseCatalog(**found)


# --- A table, by its name

_TABLE_SEPARATOR: Final = "."
# Between the parts of a namespace in a path.
_UNIT: Final = "\x1f"
_MOST_SHOWN: Final = 300
_NOTHING: Final = "nothing was read or published"


def open_table(
    catalogs: Mapping[str, Mapping[str, Any]], connection: str, table: str
) -> IcebergTable:
    """Return a table as its catalogue has it now.

    Args:
        catalogs: Settings of catalogues by connection id.
        connection: Id of the catalogue.
        table: Namespace and name of the table.

    Raises:
        ConfigError: The settings are wrong, the credentials are refused, or it is no catalogue.
        SourceUnreachableError: The catalogue does not answer, or not now.
        TableNotFoundError: It has no such table.
        FormatError: The metadata of the table is damaged.
        StorageError: The metadata cannot be read.
    """
    found = catalog_of(catalogs, connection)
    # Not at the top: they bring client libraries, which builds without a table do without.
    from trainfeed.sources.iceberg_tables import IcebergTable

    if isinstance(found, DatabaseCatalog):
        from trainfeed.sources.sql_catalogs import metadata_place

        uri = metadata_place(found.url, found.username, found.password, found.catalog, table)
        return IcebergTable.of_file(table, uri)
    server = _Server(connection, found)
    try:
        return IcebergTable.of_json(table, server.metadata(table), found.url)
    finally:
        server.close()


class _Server:
    """Asks a catalogue with the REST interface."""

    def __init__(self, name: str, settings: RestCatalog) -> None:
        self._who = f"catalogue {name!r}"
        self._settings = settings
        http = settings.http
        self._server = Connections(http.url, http.tls(), answer_seconds=http.timeout_s)
        self._headers = {"Accept": "application/json", **http.authorization()}

    def metadata(self, table: str) -> dict[str, Any]:
        """Return the metadata of a table."""
        if self._settings.credential is not None:
            self._headers["Authorization"] = f"Bearer {self._token(self._settings.credential)}"
        *namespace, name = table.split(_TABLE_SEPARATOR)
        path = f"namespaces/{quote(_UNIT.join(namespace), safe='')}/tables/{quote(name, safe='')}"
        reply = self._ask("GET", f"/v1/{self._prefix()}{path}")
        if reply.status == HTTPStatus.NOT_FOUND:
            raise TableNotFoundError(
                f"expected table {table!r} in {self._who} at {self._server.url}, got none"
                f"{_said(reply)}; {_NOTHING}; correct source.iceberg.table, or 'warehouse' of the"
                " connection"
            )
        found = self._body(reply).get("metadata")
        if not isinstance(found, dict):
            raise self._is_none(reply)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _prefix(self) -> str:
        """Return what the server wants before the paths of its tables, with a slash."""
        house = self._settings.warehouse
        asked = "" if house is None else f"?{urlencode({'warehouse': house})}"
        reply = self._ask("GET", f"/v1/config{asked}")
        found = self._body(reply)
        parts = (found.get(each) for each in ("overrides", "defaults"))
        named = [each for each in parts if isinstance(each, dict)]
        prefix = next((each["prefix"] for each in named if each.get("prefix")), "")
        if not isinstance(prefix, str):
            raise self._is_none(reply)
        return f"{quote(prefix)}/" if prefix else ""

    def _token(self, credential: str) -> str:
        number, _, secret = credential.partition(":")
        asked = {
            "grant_type": "client_credentials",
            "client_id": number,
            "client_secret": secret,
            "scope": self._settings.scope,
        }
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        reply = self._ask("POST", "/v1/oauth/tokens", urlencode(asked).encode(), form)
        if reply.status == HTTPStatus.BAD_REQUEST:
            raise self._refused(reply)
        token = self._body(reply).get("access_token")
        if not isinstance(token, str) or not token.isprintable():
            raise self._is_none(reply)
        return token

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        sent = {**self._headers, **(headers or {})}
        until = time.monotonic() + self._settings.http.timeout_s
        try:
            return self._server.ask(method, path, body=body, headers=sent, until=until)
        except NoAnswerError as error:
            text = f"{self._who} ({self._server.url}) gives no answer: {error}; {_NOTHING}"
            if error.wait_s is None:
                raise ConfigError(f"{text}; correct the connection, or its ca_file") from error
            raise SourceUnreachableError(
                f"{text}; start it or correct the connection, then run again"
            ) from error
        except ServiceError as error:
            raise IngestError(f"{self._who}: {error}; {_NOTHING}") from error

    def _body(self, reply: Reply) -> dict[str, Any]:
        """Return the JSON object of an answer."""
        status = reply.status
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise self._refused(reply)
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise SourceUnreachableError(
                f"{self._who} fails requests now ({status}{_said(reply)}); {_NOTHING}; run again"
            )
        try:
            found = canonical_json.loads(reply.body) if status == HTTPStatus.OK else None
        except FormatError:
            found = None
        if not isinstance(found, dict):
            raise self._is_none(reply)
        return found

    def _refused(self, reply: Reply) -> ConfigError:
        return ConfigError(
            f"{self._who} refuses this account ({reply.status}) at {self._server.url}; {_NOTHING};"
            " correct the credentials of the connection"
        )

    def _is_none(self, reply: Reply) -> ConfigError:
        return ConfigError(
            f"expected the answer of a catalogue of Iceberg at {self._server.url}, got status"
            f" {reply.status}{_said(reply)}; {_NOTHING}; name the URL above its /v1/config, and the"
            " warehouse where it has several"
        )


def _said(reply: Reply) -> str:
    text = printable(without_secrets(reply.body[:_MOST_SHOWN].decode("utf-8", "replace")))
    return f": {text}" if text else ""
