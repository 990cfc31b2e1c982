"""Rules that gates and the fields and lookups of a specification must meet together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from trainfeed.specification._near_names import (
    did_you_mean,
)
from trainfeed.specification._problems import (
    Place,
)
from trainfeed.specification._source_part import FieldSpec
from trainfeed.specification.quality._drift_check import DriftCheck
from trainfeed.specification.quality._quality_check import Check
from trainfeed.specification.quality._value_checks import (
    AcceptedValuesCheck,
    NullRatioCheck,
    RangeCheck,
    ShareCheck,
    UniqueCheck,
)

__all__ = ["quality_contradictions"]

# As many as have statistics of their own.
_MOST_COMPONENTS: Final = 64

_Problem: TypeAlias = tuple[Place, str]
_Fields: TypeAlias = Mapping[str, FieldSpec]


def quality_contradictions(
    checks: Sequence[Check], fields: _Fields, lookups: Collection[str]
) -> Iterator[_Problem]:
    """Yield the place, below ``quality``, and the message of every violated rule.

    Args:
        checks: The gates.
        fields: The fields of the schema by name.
        lookups: Names of the lookups.
    """
    for number, check in enumerate(checks):
        for place, text in _problems(check, fields, lookups):
            yield (number, *place), text


def _problems(check: Check, fields: _Fields, lookups: Collection[str]) -> Iterator[_Problem]:
    if isinstance(check, UniqueCheck):
        for number, name in enumerate(check.by):
            if name not in fields:
                yield ("by", number), _unknown(name, fields)
    if isinstance(check, DriftCheck):
        yield from _part_problems(check, fields)
    if isinstance(check, NullRatioCheck | RangeCheck | AcceptedValuesCheck | ShareCheck):
        if check.field in fields:
            yield from _field_problems(check, fields[check.field])
        else:
            yield ("field",), _unknown(check.field, fields)
    if isinstance(check, AcceptedValuesCheck) and check.lookup not in {None, *lookups}:
        hint = did_you_mean(str(check.lookup), lookups) if lookups else "add it"
        yield ("lookup",), f"expected one of lookups, got {check.lookup!r}; {hint}"


def _part_problems(check: DriftCheck, fields: _Fields) -> Iterator[_Problem]:
    for place, names in (("fields", check.fields), ("ignore", check.ignore)):
        for number, name in enumerate(names or ()):
            if text := _part_problem(name, fields):
                yield (place, number), text


def _part_problem(name: str, fields: _Fields) -> str | None:
    """Return what is wrong with the name of a field, or of a component such as ``values[3]``."""
    field, bracket, index = name.partition("[")
    if field not in fields:
        return _unknown(field, fields)
    if not bracket:
        return None
    shape = fields[field].shape
    lengths = [length for length in shape if length is not None]
    places = ", ".join(str(length - 1) for length in lengths)
    if not shape or len(lengths) < len(shape) or math.prod(lengths) > _MOST_COMPONENTS:
        return (
            f"expected a component of a field of fixed shape with at most {_MOST_COMPONENTS},"
            f" got {name!r} of {_told(fields[field])}; name the field"
        )
    found = index.removesuffix("]").split(", ")
    numbers = [int(each) for each in found if each.isascii() and each.isdecimal()]
    fits = len(numbers) == len(found) == len(lengths) and index.endswith("]")
    if not fits or any(n >= length for n, length in zip(numbers, lengths, strict=True)):
        return f"expected a component up to {field}[{places}], got {name!r}; choose one"
    return None


def _field_problems(
    check: NullRatioCheck | RangeCheck | AcceptedValuesCheck | ShareCheck, field: FieldSpec
) -> Iterator[_Problem]:
    name = check.field
    match check:
        case NullRatioCheck() if not field.optional:
            text = f"expected an optional field, got {name!r}, which is never absent"
            yield ("field",), f"{text}; drop the check"
        case RangeCheck() if not field.is_numeric:
            text = f"expected a numeric field, got {name!r} of dtype {field.dtype}"
            yield ("field",), f"{text}; choose another"
        case AcceptedValuesCheck() | ShareCheck() if field.shape or "float" in field.dtype:
            text = "expected a field of one whole number, text or truth value, got"
            yield ("field",), f"{text} {name!r} of {_told(field)}; choose another, or check range"
        case AcceptedValuesCheck():
            for number, value in enumerate(check.values or ()):
                if not _fits(field.dtype, value):
                    yield ("values", number), _misfit(field, value)
        case ShareCheck() if not _fits(field.dtype, check.equals):
            yield ("equals",), _misfit(field, check.equals)


def _fits(dtype: str, value: object) -> bool:
    """Whether a field of a type can have a value."""
    if dtype in {"bytes", "str"}:
        return isinstance(value, str)
    if dtype == "bool" or isinstance(value, bool):
        return dtype == "bool" and isinstance(value, bool)
    # The other types are int8 to uint64.
    bits = int(dtype.rpartition("int")[2])
    low, high = (0, 1 << bits) if dtype[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    return isinstance(value, int) and low <= value < high


def _misfit(field: FieldSpec, value: object) -> str:
    return f"expected a value that a field of dtype {field.dtype} can have, got {value!r}"


def _told(field: FieldSpec) -> str:
    return f"dtype {field.dtype} and shape {list(field.shape)}"


def _unknown(name: str, fields: _Fields) -> str:
    return f"expected a field of the schema, got {name!r}; {did_you_mean(name, fields)}"
