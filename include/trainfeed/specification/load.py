"""Reads specifications from their folders: strict YAML, validated, with the lines of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    NoReturn,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError, NotFoundError, SpecError, StorageError
from trainfeed.files import FilePath, open_plain, read_plain
from trainfeed.specification.messages import (
    Place,
    Problem,
    RefusedError,
    is_of_type,
    one_of_types,
    spec_error,
    wording,
)
from trainfeed.specification.model import DatasetSpec, contradictions
from trainfeed.specification.names import SPEC_FILE, did_you_mean

# --- A small, strict subset of YAML for specifications, which keeps the line of every value

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


# --- Validates a document with the model, and finds the lines of its errors

Model: TypeAlias = type[BaseModel]


def validate(document: Document, context: Mapping[str, Any]) -> DatasetSpec:
    """Return the specification in ``document``; each single field is then valid.

    Raises:
        RefusedError: The model refuses the document; with all problems.
    """
    try:
        return DatasetSpec.model_validate(document.value, context=dict(context))
    except ValidationError as error:
        details = error.errors(include_url=False)
    raise RefusedError(*_problems(document, details))


def line_of(document: Document, place: Place) -> int:
    """Return the line of ``place``, or of the nearest enclosing place that is in the file."""
    while place not in document.lines:
        place = place[:-1]
    return document.lines[place]


def _problems(document: Document, details: Sequence[ErrorDetails]) -> Iterator[Problem]:
    """Yield a problem for each error; one for a value that may have several types and has none."""
    types: dict[Place, list[ErrorDetails]] = {}
    for detail in details:
        if is_of_type(detail):
            types.setdefault(_place(document.value, detail), []).append(detail)
    for detail in details:
        place = _place(document.value, detail)
        alike = types.get(place, [])
        if is_of_type(detail) and len(alike) > 1:
            if detail is alike[0]:
                yield Problem(line_of(document, place), place, one_of_types(alike))
        elif _stands_alone(detail):
            yield _problem(document, place, detail)


def _stands_alone(detail: ErrorDetails) -> bool:
    """Return whether an error is one: a list is not short because its items are wrong."""
    if detail["type"] != "too_short":
        return True
    # The model counts the items that are valid; the others have errors of their own.
    return bool(len(detail["input"]) < detail["ctx"]["min_length"])


def _problem(document: Document, place: Place, detail: ErrorDetails) -> Problem:
    model = _model_at(detail["loc"][:-1])
    names = [] if model is None else [f.alias or name for name, f in model.model_fields.items()]
    return Problem(line_of(document, place), place, wording(detail, names))


def _place(value: Any, detail: ErrorDetails) -> Place:
    """Return the place in the file that ``detail`` is about.

    The path of the model has extra parts: union members, and the list around a single mapping.
    """
    place: list[str | int] = []
    for part in detail["loc"]:
        children = dict(enumerate(value)) if isinstance(value, tuple) else value
        if isinstance(children, Mapping) and part in children:
            place.append(part)
            value = children[part]
        elif detail["type"] == "missing" and part == detail["loc"][-1]:
            place.append(part)
    return tuple(place)


def _model_at(path: Place) -> Model | None:
    """Return the model of the values at ``path``, which is a path of the model, or None."""
    annotation: Any = DatasetSpec
    for part in path:
        if _is_model(annotation):
            by_key = {field.alias or name: field for name, field in annotation.model_fields.items()}
            annotation = by_key[str(part)].annotation if str(part) in by_key else None
        else:
            annotation = _member(annotation, part)
        annotation = _plain(annotation)
    return annotation if _is_model(annotation) else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _member(annotation: Any, part: str | int) -> Any:
    """Return the type that ``part`` selects: list item, mapping value, or union member."""
    members = get_args(annotation)
    if get_origin(annotation) in {Union, UnionType}:
        return next((m for m in members if part in _tags(m)), None)
    return members[0 if isinstance(part, int) else -1] if members else None


def _tags(member: Model) -> tuple[Any, ...]:
    return get_args(member.model_fields["check"].annotation)


def _plain(annotation: Any) -> Any:
    """Return ``annotation`` without metadata and without None."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    members = [member for member in get_args(annotation) if member is not type(None)]
    is_optional = get_origin(annotation) in {Union, UnionType} and len(members) == 1
    return _plain(members[0]) if is_optional else annotation


# --- Reads specifications from their folders, and the Python modules beside them as bytes

# Room for ten thousand fields of one line each.
_MAX_BYTES = 256 << 10
_MAX_MODULE_BYTES: Final = 16 << 20
_KEPT_SPECS: Final = 64


def load_spec(folder: FilePath) -> DatasetSpec:
    """Return the specification in ``folder``, checked as a whole; no other file is opened.

    Raises:
        SpecError: The specification is wrong. The message has one line per problem: file, line,
            field, expected and given value, remedy.
    """
    folder = Path(local_source(folder))
    file = folder / SPEC_FILE
    try:
        return _parse(_read(file), folder.absolute())
    except RefusedError as refused:
        raise spec_error(file, refused.problems) from None


def load_specs(datasets: FilePath) -> list[DatasetSpec | SpecError]:
    """Return all specifications below ``datasets``, in order of their folders' names.

    A wrong specification is in the list as its error, so that the others can still be used.

    Raises:
        ConfigError: ``datasets`` is no folder that can be listed.
    """
    return [spec_or_error(folder) for folder in spec_folders(datasets)]


def spec_folders(datasets: FilePath) -> list[Path]:
    """Return the folders of all data sets below ``datasets``, in order of their names.

    No file is opened. Folders whose names begin with ``.`` or ``_`` are no data sets.

    Raises:
        ConfigError: ``datasets`` is no folder that can be listed.
    """
    try:
        folders = [path for path in Path(local_source(datasets)).iterdir() if path.is_dir()]
    except OSError as error:
        raise ConfigError(
            f"expected a folder of data sets, got {str(datasets)!r} ({error.strerror});"
            " set TRAINFEED_DATASETS"
        ) from error
    names = [folder for folder in folders if not folder.name.startswith((".", "_"))]
    return sorted(names, key=lambda folder: folder.name)


def spec_or_error(folder: FilePath) -> DatasetSpec | SpecError:
    """Return the specification in ``folder``, or its error."""
    try:
        return load_spec(folder)
    except SpecError as error:
        return error


def _read(file: Path) -> str:
    try:
        with open_plain(file, follow=True) as stream:
            data = stream.read(_MAX_BYTES + 1)
    except NotFoundError:
        text = f"expected a specification, got no such file; {_missing_hint(file)}"
        raise RefusedError(Problem(1, (), text)) from None
    except FormatError as error:  # a pipe, for instance: reading it would wait for a writer
        raise RefusedError(Problem(1, (), str(error.args[0]))) from error
    except StorageError as error:
        raise RefusedError(Problem(1, (), f"expected a file that can be read: {error}")) from error
    if len(data) > _MAX_BYTES:
        raise RefusedError(Problem(1, (), f"expected at most {_MAX_BYTES} bytes, got more"))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RefusedError(Problem(line, (), "expected UTF-8 text, got other bytes")) from None


def _missing_hint(file: Path) -> str:
    folder = file.parent
    if not folder.is_dir():
        others = sorted(path.parent.name for path in folder.parent.glob(f"*/{SPEC_FILE}"))
        return did_you_mean(folder.name, others) if others else "make the folder first"
    misnamed = sorted(path.name for path in folder.glob("*.y*ml"))
    return f"rename {misnamed[0]!r}" if misnamed else "add it, or move the folder elsewhere"


def _parse(text: str, folder: Path) -> DatasetSpec:
    document, spec = _validated(text, folder)
    problems = [Problem(line_of(document, c.place), *c) for c in contradictions(spec)]
    if problems:
        raise RefusedError(*problems)
    return spec


@lru_cache(_KEPT_SPECS)
def _validated(text: str, folder: Path) -> tuple[Any, DatasetSpec]:
    """Return document and specification; a process with many builds reads the same text often."""
    document = read_yaml(text)
    return document, validate(document, {"folder": folder, "text": text})


def read_module(path: FilePath) -> bytes:
    """Return the source of a module.

    Raises:
        NotFoundError: There is no such file.
        FormatError: The path is no plain file, or the file is larger than 16 MiB.
        StorageError: The file cannot be read.
    """
    return read_plain(path, follow=True, max_bytes=_MAX_MODULE_BYTES)
