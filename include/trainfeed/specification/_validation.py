"""Validates a document with the model, and finds the lines of its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trainfeed.specification._model import DatasetSpec
from trainfeed.specification._problems import (
    Place,
    Problem,
    RefusedError,
    is_of_type,
    one_of_types,
    wording,
)
from trainfeed.specification._yaml import Document

__all__ = ["line_of", "validate"]

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
