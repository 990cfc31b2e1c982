"""A small, strict subset of YAML for specifications, which keeps the line of every value.

The reader works on the parser's events, so nothing is ever expanded or constructed. Anchors,
aliases, tags, directives, further documents, duplicate keys and deep nesting are refused as soon as
they are met. A number with a fraction becomes the exact decimal of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from trainfeed.specification._problems import Place, Problem, RefusedError

__all__ = ["Document", "read_yaml"]

_MAX_DEPTH = 8
# Longer numbers stay texts: no setting needs them, and a huge exponent would become a huge integer.
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]{1,40}|[0-9]{1,40}(\.[0-9]{0,40})?)([eE][-+]?[0-9]{1,2})?")
_WORDS: Final[Mapping[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


class Document(NamedTuple):
    """A mapping of texts, ints, decimals, bools, None, tuples and mappings, with lines from 1."""

    value: dict[str, Any]
    lines: Mapping[Place, int]


def read_yaml(text: str) -> Document:
    """Read ``text``, which must hold one mapping.

    Raises:
        RefusedError: The text is no YAML, or uses YAML that a specification may not use.
    """
    reader = _Reader(YAML(typ="safe", pure=True).parse(text))
    try:
        return reader.read()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RefusedError(
            Problem(line, (), "expected printable text, got a control character")
        ) from None
    except YAMLError as error:
        raise RefusedError(_syntax_problem(error)) from None


class _Reader:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._lines: dict[Place, int] = {}

    def read(self) -> Document:
        self._next()  # start of the stream
        event = self._next()
        if type(event).__name__ == "StreamEndEvent":
            raise RefusedError(
                Problem(1, (), "expected the fields of a data set, got an empty file")
            )
        if event.version or event.tags:
            self._refuse(event, "no directives", f"got %{'YAML' if event.version else 'TAG'}")
        value = self._value(self._next(), ())
        if not isinstance(value, dict):
            raise RefusedError(Problem(1, (), "expected a mapping of fields, like name: clicks"))
        self._next()  # end of the document
        if type(event := self._next()).__name__ != "StreamEndEvent":
            self._refuse(event, "one document", "got another one after ---")
        return Document(value, self._lines)

    def _next(self) -> Any:
        return next(self._events)

    def _refuse(self, event: Any, expected: str, got: str, place: Place = ()) -> NoReturn:
        line = event.start_mark.line + 1
        raise RefusedError(Problem(line, place, f"expected {expected}, {got}"))

    def _value(self, event: Any, place: Place) -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent":
            self._refuse(
                event, "a value", "got a YAML alias; a text that starts with * needs quotes", place
            )
        if event.anchor is not None or event.ctag is not None:
            self._refuse(
                event,
                "a plain value",
                "got a YAML anchor or tag; quote a text that starts with & or !",
                place,
            )
        if len(place) > _MAX_DEPTH:
            self._refuse(event, f"at most {_MAX_DEPTH} levels", "got more", place)
        self._lines.setdefault(place, event.start_mark.line + 1)
        if kind == "MappingStartEvent":
            return self._mapping(place)
        if kind == "SequenceStartEvent":
            return self._sequence(place)
        return _scalar(event.value) if event.implicit[0] else event.value

    def _mapping(self, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while type(event := self._next()).__name__ != "MappingEndEvent":
            if type(event).__name__ != "ScalarEvent":
                self._refuse(event, "a field name", "got a list or a mapping as one", place)
            key, line = event.value, event.start_mark.line + 1
            if key in values:
                first = self._lines[*place, key]
                self._refuse(
                    event, "every field once", f"got it in line {first} already", (*place, key)
                )
            self._lines[*place, key] = line
            values[key] = self._value(self._next(), (*place, key))
        return values

    def _sequence(self, place: Place) -> tuple[Any, ...]:
        values: list[Any] = []
        while type(event := self._next()).__name__ != "SequenceEndEvent":
            values.append(self._value(event, (*place, len(values))))
        return tuple(values)


def _scalar(text: str) -> str | int | Decimal | bool | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return Decimal(text) if _DECIMAL.fullmatch(text) else text


def _syntax_problem(error: YAMLError) -> Problem:
    if not isinstance(error, MarkedYAMLError):
        return Problem(1, (), f"expected YAML: {error}")
    mark = error.problem_mark or error.context_mark
    what = ", ".join(filter(None, (error.context, error.problem)))
    hint = ""
    if "'\\t'" in what:
        hint = "; indent with spaces instead of tabs"
    elif "token" in what:
        hint = "; put a text that starts with such a character in quotes"
    return Problem(1 if mark is None else mark.line + 1, (), f"expected YAML: {what}{hint}")
