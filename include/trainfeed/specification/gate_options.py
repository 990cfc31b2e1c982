"""The part ``quality`` of a specification: gates that an interval has to pass."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from trainfeed.core.printable_text import printable
from trainfeed.specification.inputs import FieldSpec
from trainfeed.specification.messages import Place
from trainfeed.specification.names import cut, did_you_mean
from trainfeed.specification.values import FieldName, Name, Number, Part, Text, WrongValueError

# --- The options that all gates have in common

Ratio = Annotated[Number, Field(ge=0, le=1)]
Severity: TypeAlias = Literal["block", "warn", "ask"]


class Check(Part):
    """The fields that all checks have.

    Attributes:
        check: Name of the check.
        severity: What a failure does: ``block`` publication, ``warn`` only, or ``ask``, which
            blocks until somebody approves it.
        field: The field of the schema that the check is about.
        min: The least allowed value.
        max: The largest allowed value.
    """

    severity: Severity = "block"

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return 0


def require_range(low: float | None, high: float | None) -> None:
    """Refuse limits that allow everything or nothing."""
    if low is None and high is None:
        raise WrongValueError("min, max or both, got neither", shows_got=False)
    if low is not None and high is not None and low > high:
        raise WrongValueError(f"min at most max, got {low} and {high}", shows_got=False)


# --- Options of gates on the counts of a build, and on the sizes of its shards


class QuarantineRatioCheck(Check):
    """Quarantined records are at most this share, ``max``, of all records read."""

    check: Literal["quarantine_ratio"]
    max: Ratio


class LateRatioCheck(Check):
    """Records stamped outside of the interval are at most this share, ``max``, of all records read.

    Attributes:
        of: Which records: stamped before the interval, after it, or not at all. What is done with
            late records is the setting ``late`` of their topic.
        max: Largest allowed share.
    """

    check: Literal["late_ratio"]
    of: Literal["late", "future", "unstamped"] = "late"
    max: Ratio


class CountCheck(Check):
    """The number of samples of the version, all splits together, lies in [min, max]."""

    check: Literal["count"]
    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> CountCheck:
        require_range(self.min, self.max)
        return self


class ShardSkewCheck(Check):
    """The largest shard of a split is at most ``max`` times the mean shard of that split.

    Attributes:
        of: What is compared: samples of the shards, or bytes of their files.
        max: The largest allowed ratio.
    """

    check: Literal["shard_skew"]
    of: Literal["samples", "bytes"] = "samples"
    max: Annotated[Number, Field(ge=1)]


# --- Options of gates that compare with the versions of earlier intervals

Action: TypeAlias = Literal["allow", "warn", "block"]
_MOST_VERSIONS: Final = 30


class RelativeCountCheck(Check):
    """The count, divided by the median count of earlier versions, lies in [min, max].

    Attributes:
        of: What is counted: samples, or the records that were read.
        versions: Number of earlier intervals whose versions are compared with.
    """

    check: Literal["relative_count"]
    of: Literal["samples", "records"] = "samples"
    versions: Annotated[int, Field(ge=1, le=_MOST_VERSIONS)] = 1
    min: Annotated[Number, Field(ge=0)] | None = None
    max: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> RelativeCountCheck:
        require_range(self.min, self.max)
        return self

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return self.versions


class SchemaEvolutionCheck(Check):
    """What changes of the schema since the version of the interval before may do.

    Attributes:
        severity: What a change of an action ``block`` does.
        added_optional: A new field that samples may lack.
        added_required: A new field that every sample has.
        removed: A field that is gone.
        widened: A type that holds all values of the one before, as int64 after int32.
        narrowed: A type that holds some values of the one before only, as int32 after int64.
        incompatible: Any other type.
        shape: Another shape.
        made_optional: Samples may now lack the field.
        made_required: Every sample now has the field.
        writer_added: Values behind a schema registry have a writer's schema that the version before
            did not have, with a field more than the newest one before.
        writer_removed: The same, with a field less.
        writer_changed: The same, with another type of a field.
    """

    WRITER_CHANGES: ClassVar[Mapping[str, Action]] = {
        "writer_added": "allow",
        "writer_removed": "warn",
        "writer_changed": "warn",
    }
    CHANGES: ClassVar[tuple[str, ...]] = (
        "added_optional",
        "added_required",
        "removed",
        "widened",
        "narrowed",
        "incompatible",
        "shape",
        "made_optional",
        "made_required",
    )

    check: Literal["schema_evolution"]
    added_optional: Action = "allow"
    added_required: Action = "warn"
    removed: Action = "warn"
    widened: Action = "allow"
    narrowed: Action = "warn"
    incompatible: Action = "block"
    shape: Action = "block"
    made_optional: Action = "warn"
    made_required: Action = "allow"
    writer_added: Action = "allow"
    writer_removed: Action = "warn"
    writer_changed: Action = "warn"

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what plans and manifests did not have before there were writers' schemas."""
        found: dict[str, Any] = dump(self)
        for name, action in self.WRITER_CHANGES.items():
            if found.get(name) == action:
                del found[name]
        return found

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return 1


# --- Options of the gate ``drift``

_LEAST_HISTORY: Final = 14
_MOST_NAMES: Final = 1024
_Distance = Annotated[Number, Field(ge=0)]
_Names = Annotated[tuple[Text, ...], Field(min_length=1, max_length=_MOST_NAMES)]


class DriftFloors(Part):
    """The least limits of a gate ``drift``: smaller distances are never beyond one.

    Attributes:
        absent: Of the difference of the share of samples without a value, or with NaN or infinity.
        psi: Of the population stability index.
        ks: Of the largest difference of the shares below any number.
        mean: Of the difference of the means, in standard deviations.
    """

    absent: _Distance = 0.01
    psi: _Distance = 0.05
    ks: _Distance = 0.05
    mean: _Distance = 0.15


class DriftCheck(Check):
    """The distributions of fields and components are like those of earlier versions.

    A limit is ``factor`` times the 99 % quantile of the earlier distances of the same field or
    component, at least its floor. There is none before the data set has 14 versions.

    Attributes:
        severity: What a failure does.
        fields: Fields, and components as ``values[3]``; by default all.
        ignore: Fields and components that are left out, such as those that hold a date.
        reference: Number of earlier versions that together are compared with.
        history: Number of earlier versions whose distances make the limits.
        factor: See above.
        floor: The least limits, by measure.
    """

    check: Literal["drift"]
    severity: Severity = "warn"
    fields: _Names | None = None
    ignore: _Names | None = None
    reference: Annotated[int, Field(ge=1, le=_MOST_VERSIONS)] = 7
    history: Annotated[int, Field(ge=_LEAST_HISTORY, le=_MOST_VERSIONS)] = _MOST_VERSIONS
    factor: Annotated[Number, Field(ge=1)] = 1.5
    floor: DriftFloors = DriftFloors()

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return max(self.reference, self.history)


# --- Options of gates on the values of fields

# A scalar of YAML that a field without a shape may hold; strict, so that true is not 1.
Scalar: TypeAlias = bool | int | Annotated[str, Field(max_length=1000)]
_MOST_VALUES: Final = 1000


class NullRatioCheck(Check):
    """An optional ``field`` is absent in at most ``max`` of the samples."""

    check: Literal["null_ratio"]
    field: FieldName
    max: Ratio


class RangeCheck(Check):
    """Every value of a numeric ``field`` lies in [min, max]."""

    check: Literal["range"]
    field: FieldName
    min: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> RangeCheck:
        require_range(self.min, self.max)
        return self


class UniqueCheck(Check):
    """No two samples have equal values in all fields of ``by``, over all splits.

    Attributes:
        by: Fields that together are the key of a sample.
        max: Largest allowed number of samples whose key an earlier sample has.
    """

    check: Literal["unique"]
    by: Annotated[tuple[FieldName, ...], Field(min_length=1, max_length=32)]
    max: Annotated[int, Field(ge=0)] = 0


class AcceptedValuesCheck(Check):
    """A scalar ``field`` has only values of a list, or only values of a lookup.

    Attributes:
        values: The accepted values: whole numbers, texts, true or false.
        lookup: Name of a lookup with the accepted values.
        column: Column of the lookup; the first one by default.
        max: Largest allowed share of samples with another value. Samples that lack the field do
            not count as such.
    """

    check: Literal["accepted_values"]
    field: FieldName
    values: Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=_MOST_VALUES)] | None = (
        None
    )
    lookup: Name | None = None
    column: Annotated[Text, Field(max_length=1000)] | None = None
    max: Ratio = 0

    @model_validator(mode="after")
    def _has_one_set(self) -> AcceptedValuesCheck:
        if (self.values is None) == (self.lookup is None):
            raise WrongValueError("either values or lookup", shows_got=False)
        return self


class ShareCheck(Check):
    """The share of samples whose scalar ``field`` is ``equals`` lies in [min, max].

    Attributes:
        equals: A whole number, a text, true or false.
    """

    check: Literal["share"]
    field: FieldName
    equals: Scalar
    min: Ratio | None = None
    max: Ratio | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> ShareCheck:
        require_range(self.min, self.max)
        return self


# --- Words about a gate, from its entry in a specification, a plan or a manifest

# An entry: check, severity, limits, and fields if the check needs some.
Gate: TypeAlias = Mapping[str, object]
_MOST_SHOWN_VALUES: Final = 5


def gate_name(gate: Gate) -> str:
    """Return the check, and what it is about: a field, several, a field with its value."""
    subject = _subject(gate)
    return f"{gate['check']} of {subject}" if subject else str(gate["check"])


def gate_limits(gate: Gate) -> str:
    """Return what a gate allows."""
    if gate.get("allowed"):
        return str(gate["allowed"])
    if gate["check"] == "schema_evolution":
        return _allowed_changes(gate)
    sides = ("min", "max")
    limits = ", ".join(f"{side} {gate[side]}" for side in sides if gate.get(side) is not None)
    return f"{limits} of {_other_values(gate)}" if gate["check"] == "accepted_values" else limits


def shown_number(value: object) -> str:
    """Return the value of a gate as text, numbers with six digits."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown_number, value))}]"
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _subject(gate: Gate) -> str:
    if gate.get("equals") is not None:
        return f"{gate['field']} = {_short(gate['equals'])}"
    by = cast("Sequence[object]", gate.get("by") or ())
    return str(gate.get("field") or ", ".join(map(str, by)) or gate.get("of") or "")


def _other_values(gate: Gate) -> str:
    if gate.get("lookup"):
        return f"values that lookup {gate['lookup']} lacks"
    values = cast("Sequence[object]", gate.get("values") or ())
    more = (
        f" and {len(values) - _MOST_SHOWN_VALUES} more" if len(values) > _MOST_SHOWN_VALUES else ""
    )
    return f"other values than {', '.join(map(_short, values[:_MOST_SHOWN_VALUES]))}{more}"


def _allowed_changes(gate: Gate) -> str:
    """Return the changes of a schema that are allowed, and those that only warn."""
    said = []
    for action, words in (("allow", ""), ("warn", "with a warning ")):
        # Of changes of writers, those that a specification names.
        known = (*SchemaEvolutionCheck.CHANGES, *SchemaEvolutionCheck.WRITER_CHANGES)
        names = [name for name in known if gate.get(name) == action]
        if names:
            said.append(f"{words}{', '.join(names)}")
    return "; ".join(said) or "no change"


def _short(value: object) -> str:
    return cut(printable(str(value)))


# --- Rules that gates and the fields and lookups of a specification must meet together

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


# --- The part ``quality`` of a specification: gates that an interval has to pass

QualityCheck: TypeAlias = Annotated[
    QuarantineRatioCheck
    | CountCheck
    | LateRatioCheck
    | NullRatioCheck
    | RangeCheck
    | UniqueCheck
    | AcceptedValuesCheck
    | ShareCheck
    | RelativeCountCheck
    | SchemaEvolutionCheck
    | ShardSkewCheck
    | DriftCheck,
    Field(discriminator="check"),
]


def earlier_versions(checks: Iterable[QualityCheck]) -> int:
    """Return how many earlier versions a build needs: at least 1, for changes of the schema."""
    return max((1, *(check.earlier_versions for check in checks)))
