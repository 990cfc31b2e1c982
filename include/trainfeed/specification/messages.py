"""Messages from the model's errors: ``file:line: field: expected, got; remedy``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pydantic_core import ErrorDetails

from trainfeed.core.printable_text import printable
from trainfeed.errors import SpecError
from trainfeed.specification.names import cut, did_you_mean, nearest
from trainfeed.specification.values import WrongValueError

Place: TypeAlias = tuple[str | int, ...]
_MAX_PROBLEMS = 20


class Problem(NamedTuple):
    """One problem: the line (from 1), the path of the field, the message."""

    line: int
    place: Place
    text: str


class RefusedError(Exception):
    """A document that cannot become a specification, with all its problems."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems


def spec_error(file: Path, problems: Iterable[Problem]) -> SpecError:
    """Return one error with the first 20 ``problems`` of ``file``, one per line, in line order."""
    ordered = sorted(problems, key=lambda problem: problem.line)
    lines = [
        printable(": ".join(filter(None, (f"{file}:{line}", _path(place), text))))
        for line, place, text in ordered[:_MAX_PROBLEMS]
    ]
    if more := ordered[_MAX_PROBLEMS:]:
        lines.append(printable(f"{file}:{more[0].line}: {len(more)} more problems from here on"))
    return SpecError("\n".join(lines))


def shown(value: object) -> str:
    """Return ``value`` as it looks in the file, short enough for a message."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case Mapping():
            return "a mapping"
        case tuple():
            text = f"[{', '.join(map(shown, value))}]"
        case _:
            text = repr(value)
    return cut(text)


def _path(place: Place) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in place)
    return path.removeprefix(".")


def wording(detail: ErrorDetails, field_names: Iterable[str]) -> str:
    """Return the message for ``detail``, without its place.

    Args:
        detail: One error of the model.
        field_names: The known fields of the mapping around the place.
    """
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"unknown field; {did_you_mean(detail['loc'][-1], field_names)}"
    if kind == "missing":
        return "required, and missing; add the field"
    if kind in _WORDINGS:
        return _WORDINGS[kind](detail)
    context = detail.get("ctx", {})
    expected = _EXPECTED[kind].format(**context) if kind in _EXPECTED else detail["msg"].lower()
    return f"expected {expected}, got {shown(detail['input'])}"


def is_of_type(detail: ErrorDetails) -> bool:
    """Return whether an error is that a value has another type."""
    return detail["type"] in _TYPES


def one_of_types(details: Sequence[ErrorDetails]) -> str:
    """Return the message about a value that has none of several types, by its errors."""
    *first, last = dict.fromkeys(_TYPES[detail["type"]] for detail in details)
    expected = f"{', '.join(first)} or {last}" if first else last
    text = "; put a text in quotes" if _TEXT in (*first, last) else ""
    return f"expected {expected}, got {shown(details[0]['input'])}{text}"


def _wrong_value(detail: ErrorDetails) -> str:
    error = detail["ctx"]["error"]
    if not isinstance(error, WrongValueError):
        raise error
    got = f", got {shown(detail['input'])}" if error.shows_got else ""
    return f"expected {error.expected}{got}" + (f"; {error.remedy}" if error.remedy else "")


def _not_a_choice(detail: ErrorDetails) -> str:
    expected, got = detail["ctx"]["expected"], detail["input"]
    choices = re.findall(r"'([^']*)'", expected)
    if len(choices) == 1:
        return f"expected {expected}, the only one that this version has, got {shown(got)}"
    near = nearest(_ALIASES.get(str(got).lower(), got), choices)
    return f"expected {expected}, got {shown(got)}" + (f"; {near}" if near else "")


def _unknown_check(detail: ErrorDetails) -> str:
    names = re.findall(r"'([^']*)'", detail["ctx"]["expected_tags"])
    return f"unknown check {detail['ctx']['tag']!r}; {did_you_mean(detail['ctx']['tag'], names)}"


# Names of types in other systems, too different from ours to be found by similarity.
_ALIASES: Mapping[str, str] = {
    "binary": "bytes",
    "boolean": "bool",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int64",
    "integer": "int64",
    "long": "int64",
    "short": "int16",
    "string": "str",
    "text": "str",
    "varchar": "str",
}


_WORDINGS: Mapping[str, Callable[[ErrorDetails], str]] = {
    "literal_error": _not_a_choice,
    "string_type": lambda detail: (
        f"expected a text, got {shown(detail['input'])}; put it in quotes"
    ),
    "union_tag_invalid": _unknown_check,
    "union_tag_not_found": lambda _: "expected a mapping with the field check; add it",
    "value_error": _wrong_value,
}


_TEXT = "a text"
# Error of the model about a type → that type.
_TYPES: Mapping[str, str] = {
    "bool_type": "true or false",
    "dict_type": "a mapping of fields",
    "int_type": "a whole number",
    "mapping_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
    "model_type": "a mapping of fields",
    "string_type": _TEXT,
    "tuple_type": "a list",
}
_EXPECTED: Mapping[str, str] = {
    **_TYPES,
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": _TEXT,
    "too_short": "at least one entry",
}
