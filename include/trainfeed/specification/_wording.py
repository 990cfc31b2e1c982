"""Says in our words what the model refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from pydantic_core import ErrorDetails

from trainfeed.specification._problems import did_you_mean, nearest, shown
from trainfeed.specification._spec_values import WrongValueError

__all__ = ["wording"]


def wording(detail: ErrorDetails, field_names: Iterable[str]) -> str:
    """The message for ``detail``, without its place.

    Args:
        detail: One error of the model.
        field_names: The fields that the mapping around the place may have.
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


# What other systems call our types; their names are not alike enough to be found.
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
_EXPECTED: Mapping[str, str] = {
    "bool_type": "true or false",
    "dict_type": "a mapping of fields",
    "greater_than_equal": "at least {ge}",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "mapping_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
    "model_type": "a mapping of fields",
    "string_too_short": "a text",
    "too_short": "at least one entry",
    "tuple_type": "a list",
}
