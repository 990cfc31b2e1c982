"""Schema registries: their settings, and the two questions that a build asks.

The interface is that of Confluent's registry, which the others have too. It is read with the
connections that all clients of trainfeed have, and no client library: two requests need none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from trainfeed.core import canonical_json
from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import (
    ConfigError,
    FormatError,
    IngestError,
    ServiceError,
    SourceUnreachableError,
)
from trainfeed.serving.server import Connections, HttpSettings, NoAnswerError, Reply, named_settings
from trainfeed.value_formats import WriterSchema

# --- The settings of a schema registry: the installation's, not those of a data set

_REMEDY: Final = (
    "correct it in the file of TRAINFEED_REGISTRIES, in Airflow in the extras of the connection;"
    " nothing was published"
)


def registry_settings(registries: Mapping[str, Mapping[str, Any]], connection: str) -> HttpSettings:
    """Return the settings of a connection.

    Args:
        registries: Settings by connection id.
        connection: The id.

    Raises:
        ConfigError: There are none, or one is wrong; the message has no values, which may be
            secrets.
    """
    advice = (
        "set TRAINFEED_REGISTRY for registry_default, or add to the file of TRAINFEED_REGISTRIES:"
        f" {connection}: {{url: 'https://registry.example'}}; in Airflow add the connection;"
        " nothing was published"
    )
    found = named_settings(registries, connection, "schema registry", advice)
    return HttpSettings.of(found, connection, _REMEDY)


# --- The questions: the schema of an id, and those that it refers to

_UNKNOWN_ID: Final = 40403
_AVRO: Final = "AVRO"
# References of references of …: a chain that is longer goes in a circle.
_MOST_REFERENCES: Final = 500
_MOST_SHOWN: Final = 300
_KEPT: Final = "landed records are kept, nothing was published"


class SchemaRegistry:
    """Asks one registry; a request waits as long as the settings say.

    Args:
        name: Id of the connection, for messages.
        settings: Address and credentials.

    Raises:
        ConfigError: A file of certificates cannot be read.
    """

    def __init__(self, name: str, settings: HttpSettings) -> None:
        self._name = name
        self._headers = {"Accept": "application/json", **settings.authorization()}
        self._timeout_s = settings.timeout_s
        self._server = Connections(settings.url, settings.tls(), answer_seconds=settings.timeout_s)

    def schema(self, number: int) -> WriterSchema | None:
        """Return the schema of an id, or None if the registry has none.

        Raises:
            SourceUnreachableError: The registry does not answer, or not now.
            ConfigError: It refuses the credentials, or is no schema registry.
            IngestError: Its answer cannot be used.
        """
        reply = self._ask(f"/schemas/ids/{number}")
        if reply.status == HTTPStatus.NOT_FOUND and _error_code(reply) == _UNKNOWN_ID:
            return None
        found = self._json(reply)
        references: dict[str, str] = {}
        self._add_references(found, references, ())
        return WriterSchema(found.get("schemaType") or _AVRO, found["schema"], references)

    def kinds(self) -> list[str]:
        """Return the kinds of schemas that the registry has, such as ``AVRO``.

        Raises:
            SourceUnreachableError: The registry does not answer, or not now.
            ConfigError: It refuses the credentials, or is no schema registry.
        """
        reply = self._ask("/schemas/types")
        found = self._body(reply)
        if not isinstance(found, list) or not all(isinstance(kind, str) for kind in found):
            raise self._is_none(reply)
        return sorted(found)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _add_references(
        self, found: Mapping[str, Any], references: dict[str, str], within: tuple[str, ...]
    ) -> None:
        for each in found.get("references") or ():
            name, subject, version = (each.get(key) for key in ("name", "subject", "version"))
            if (
                not isinstance(name, str)
                or not isinstance(subject, str)
                or type(version) is not int
            ):
                raise IngestError(f"{self._who} has a reference of another form; {_KEPT}")
            if name in references:
                continue
            if name in within or len(references) > _MOST_REFERENCES:
                raise IngestError(f"{self._who} has references in a circle, at {name!r}; {_KEPT}")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            inner = self._json(self._ask(path))
            # Those that it uses itself stand before it.
            self._add_references(inner, references, (*within, name))
            references[name] = inner["schema"]

    @property
    def _who(self) -> str:
        return f"schema registry {self._name!r}"

    def _ask(self, path: str) -> Reply:
        until = time.monotonic() + self._timeout_s
        try:
            return self._server.ask("GET", path, headers=self._headers, until=until)
        except NoAnswerError as error:
            text = f"{self._who} ({self._server.url}) gives no answer: {error}; {_KEPT}"
            if error.wait_s is None:
                raise ConfigError(f"{text}; correct the connection, or its ca_file") from error
            raise SourceUnreachableError(
                f"{text}; start it or correct the connection, then run again"
            ) from error
        except ServiceError as error:
            raise IngestError(f"{self._who}: {error}; {_KEPT}") from error

    def _json(self, reply: Reply) -> dict[str, Any]:
        """Return the JSON of an answer that has a schema."""
        found = self._body(reply)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._is_none(reply)
        return found

    def _body(self, reply: Reply) -> object:
        """Return the JSON of an answer; None if it says that something is wrong."""
        status = reply.status
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise ConfigError(
                f"{self._who} refuses this account ({status}) at {self._server.url}; {_KEPT};"
                " correct the credentials of the connection"
            )
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise SourceUnreachableError(
                f"{self._who} fails requests now ({status}{_said(reply)}); {_KEPT}; run again"
            )
        try:
            return canonical_json.loads(reply.body) if status == HTTPStatus.OK else None
        except FormatError:
            return None

    def _is_none(self, reply: Reply) -> ConfigError:
        return ConfigError(
            f"expected a schema of {self._who} at {self._server.url}, got status {reply.status}"
            f"{_said(reply)}; {_KEPT}; name the URL of its interface of Confluent, such as"
            " https://HOST or https://HOST/apis/ccompat/v7"
        )


def _error_code(reply: Reply) -> object:
    try:
        found = canonical_json.loads(reply.body)
    except FormatError:
        return None
    return found.get("error_code") if isinstance(found, dict) else None


def _said(reply: Reply) -> str:
    text = printable(without_secrets(reply.body[:_MOST_SHOWN].decode("utf-8", "replace")))
    return f": {text}" if text else ""
