"""Rules that gates and the fields and lookups of a specification must meet together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from trainfeed.specification._problems import Place, did_you_mean
from trainfeed.specification._source_part import FieldSpec
from trainfeed.specification.quality._quality_check import Check
from trainfeed.specification.quality._value_checks import (
    AcceptedValuesCheck,
    NullRatioCheck,
    RangeCheck,
    ShareCheck,
    UniqueCheck,
)

__all__ = ["quality_contradictions"]

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
    if isinstance(check, NullRatioCheck | RangeCheck | AcceptedValuesCheck | ShareCheck):
        if check.field in fields:
            yield from _field_problems(check, fields[check.field])
        else:
            yield ("field",), _unknown(check.field, fields)
    if isinstance(check, AcceptedValuesCheck) and check.lookup not in {None, *lookups}:
        hint = did_you_mean(str(check.lookup), lookups) if lookups else "add it"
        yield ("lookup",), f"expected one of lookups, got {check.lookup!r}; {hint}"


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
