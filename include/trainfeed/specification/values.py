"""The common base of the parts of a ``dataset.yaml``, and the types of scalar values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    WithJsonSchema,
)

from trainfeed.core.intervals import (
    has_offset,
    parse_range,
    parse_time,
    range_needs_zone,
    zone_rules,
)
from trainfeed.errors import ConfigError, WindowError
from trainfeed.specification.names import FIELD_NAME, FIELD_RULE, NAME, NAME_RULE

MILLIONTHS: Final = 1_000_000
_DURATION = re.compile(r"([0-9]{1,6})(s|m|h|d)")
_DURATION_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SIZE = re.compile(r"([0-9]{1,9})(B|KiB|MiB|GiB)")
_SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_ENTRY_POINT = re.compile(r"[a-z_][a-z0-9_]*:[A-Za-z_][A-Za-z0-9_]*")
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
# The manifest refuses other names of files.
_DOCUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_CONNECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,249}")


class Part(BaseModel):
    """The base of all parts: frozen, strict, and closed: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class SourcePart(Part):
    """The base of the kinds of sources, which know where in dataset.yaml they stand."""

    _at: str = PrivateAttr(default="source")

    def at(self, place: str) -> Self:
        """Return the same source for another place in dataset.yaml.

        Args:
            place: The place above it, like ``source.union.archive``.
        """
        found = self.model_copy()
        found._at = place  # noqa: SLF001 - its own
        return found


class WrongValueError(ValueError):
    """A value that a field refuses.

    Attributes:
        expected: The allowed values, worded to follow "expected".
        remedy: The remedy, or empty.
        shows_got: Whether the message shows the given value.
    """

    def __init__(self, expected: str, remedy: str = "", *, shows_got: bool = True) -> None:
        super().__init__(expected)
        self.expected = expected
        self.remedy = remedy
        self.shows_got = shows_got


def pattern_schema(pattern: re.Pattern[str], *examples: str) -> WithJsonSchema:
    """Say in the JSON Schema that the whole of a text matches a pattern."""
    # A pattern of JSON Schema may match anywhere in a text; ours must match all of it.
    text = {"type": "string", "pattern": f"^({pattern.pattern})$", "examples": list(examples)}
    return WithJsonSchema(text if examples else {k: text[k] for k in ("type", "pattern")})


def matching(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    """Refuse a text that does not match a pattern as a whole; ``expected`` says what one would."""

    def check(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise WrongValueError(expected)
        return text

    return AfterValidator(check)


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise WrongValueError("a duration: digits and one of s, m, h, d, like 30m, 2h or 1d")
    return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})


def _size(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise WrongValueError("a size: digits and one of B, KiB, MiB, GiB, like 64KiB or 1MiB")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _millionths(value: Any) -> int:
    # Exact, because the value is the decimal of the file, not its nearest binary fraction.
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise WrongValueError("a share between 0 and 1, like 0.9")
    millionths = Fraction(value) * MILLIONTHS
    if not 0 < millionths <= MILLIONTHS:
        raise WrongValueError("a share above 0 and at most 1", "shares of 0 are left out")
    if millionths.denominator != 1:
        raise WrongValueError(
            "a whole number of millionths", "give at most 6 digits after the point"
        )
    return millionths.numerator


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise WrongValueError("a number")
    return float(value) if isinstance(value, Decimal) else value


def _time(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    try:
        return parse_time(value if isinstance(value, str) else "")
    except WindowError:
        raise WrongValueError(
            "a UTC date or time, like 2013-01-01 or 2013-01-01T05:00:00Z"
        ) from None


def _relative_file(text: str) -> str:
    path = PurePosixPath(text)
    if str(path) != text or path.is_absolute() or ".." in path.parts or path == PurePosixPath():
        raise WrongValueError("the relative path of a file inside the data set's folder")
    if not text.isprintable() or "\\" in text:
        raise WrongValueError("a path without control characters and backslashes")
    return text


Name = Annotated[str, matching(NAME, f"a name ({NAME_RULE})"), pattern_schema(NAME)]


FieldName = Annotated[
    str,
    matching(FIELD_NAME, f"a field name ({FIELD_RULE})"),
    pattern_schema(FIELD_NAME, "label", "image/encoded"),
]


Text = Annotated[str, Field(min_length=1)]


Duration = Annotated[
    timedelta, BeforeValidator(_duration), pattern_schema(_DURATION, "30m", "2h", "1d")
]


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer"},
                {"type": "string", "pattern": f"^{_SIZE.pattern}$"},
            ],
            "examples": ["64KiB", "1MiB"],
        }
    ),
]


Millionths = Annotated[
    int,
    BeforeValidator(_millionths),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1, "examples": [0.9]}),
]


Number = Annotated[int | float, BeforeValidator(_number), WithJsonSchema({"type": "number"})]


def _zone(value: Any) -> Any:
    if not isinstance(value, str) or value == "UTC":
        return None if value == "UTC" else value
    try:
        zone_rules(value)
    except ConfigError as error:
        raise WrongValueError(
            "the name of a time zone, like Europe/Berlin", str(error).partition("; ")[2]
        ) from None
    return value


def local_time(value: Any, zone: str) -> Any:
    """Return the start of a day of a zone, or ``value`` if it is a time that needs no zone.

    Raises:
        WrongValueError: It is a time of day without its distance to UTC, or no day of the zone.
    """
    if not isinstance(value, str):
        return value
    with suppress(WindowError):
        if range_needs_zone(value) and len(value) == len("2013-01-01"):
            return parse_range(value, zone).start
        if not range_needs_zone(value) and has_offset(value):
            return parse_time(value)
    raise WrongValueError(
        f"a day of {zone}, like 2026-03-29, or a time with its distance to UTC, like"
        " 2026-03-28T23:00:00Z"
    )


# ``UTC`` says what is so without a zone.
Zone = Annotated[
    str | None,
    BeforeValidator(_zone),
    WithJsonSchema({"type": "string", "examples": ["Europe/Berlin"]}),
]


UtcTime = Annotated[
    datetime,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "examples": ["2013-01-01", "2013-01-01T05:00:00Z"]}),
]


RelativeFile = Annotated[str, AfterValidator(_relative_file)]


def _documents(paths: tuple[str, ...]) -> tuple[str, ...]:
    names = [PurePosixPath(path).name for path in paths]
    for name in names:
        if _DOCUMENT.fullmatch(name) is None or names.count(name) > 1:
            raise WrongValueError(
                "files with different names of letters, digits, '.', '_' and '-', at most 200"
                " characters"
            )
    return paths


Documents = Annotated[tuple[RelativeFile, ...], AfterValidator(_documents)]


EntryPoint = Annotated[
    str,
    matching(_ENTRY_POINT, "'module:name', a module of the data set's folder and a function"),
    pattern_schema(_ENTRY_POINT, "preprocess:make_sample"),
]


Topic = Annotated[
    str,
    matching(_TOPIC, "a topic name (letters, digits, '.', '_' and '-')"),
    pattern_schema(_TOPIC),
]


_Scalar: TypeAlias = bool | int | float | str
# A value that a function of a data set gets, as it stands in dataset.yaml.
ParameterValue: TypeAlias = _Scalar | tuple[_Scalar, ...]
_LARGEST: Final = 1 << 63


def parameter_value(value: Any) -> ParameterValue:
    """Return the value of a parameter; lists become tuples, which a function cannot change.

    Raises:
        WrongValueError: It is neither a bool, a whole number of 64 bits, a finite number or a text,
            nor a list of such values.
    """
    if isinstance(value, list | tuple):
        return tuple(_scalar(each) for each in value)
    return _scalar(value)


def _scalar(value: Any) -> _Scalar:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and -_LARGEST <= value < _LARGEST:
        return value
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return float(value)
    raise WrongValueError("true, false, a number, a text, or a list of them")


Parameters = Annotated[
    Mapping[Name, Annotated[Any, BeforeValidator(parameter_value)]],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": ["boolean", "number", "string", "array"]},
            "examples": [{"late_minutes": 15}],
        }
    ),
]


Connection = Annotated[
    str,
    matching(_CONNECTION, "a connection id (letters, digits, '.', '_' and '-')"),
    pattern_schema(_CONNECTION),
]
