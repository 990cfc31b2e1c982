"""The input side of a specification: source, function, schema, splits, and uploads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from trainfeed.specification.iceberg_source import IcebergSourceSpec
from trainfeed.specification.log_source import LogsSourceSpec
from trainfeed.specification.messages import Place
from trainfeed.specification.names import did_you_mean, nearest
from trainfeed.specification.source_kinds import (
    KafkaSourceSpec,
    KafkaTopics,
    Missing,
    MissingRule,
    RecordedSourceSpec,
    SourceKind,
    Wait,
)
from trainfeed.specification.union_source import (
    FEWEST_MEMBERS,
    MOST_MEMBERS,
    UNION,
    UnionSource,
)
from trainfeed.specification.values import (
    Connection,
    EntryPoint,
    FieldName,
    Millionths,
    Name,
    Parameters,
    Part,
    Size,
    UtcTime,
    WrongValueError,
)

# --- The input side of a specification: source, function, schema and splits

_MAX_VALUES = 1 << 26  # most values of a field in one sample: larger shapes are typing mistakes


LookupType: TypeAlias = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "str",
]  # fmt: skip


# The further key of each of several sources.
UNTIL: Final = "until"
_KAFKA: Final = "kafka"


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else value


class OneSource(Part):
    """Origin of the records: Kafka topics, one recorded topic, log files, or a table.

    Exactly one of ``kafka`` (in the file a mapping or a list of mappings), ``recorded``, ``logs``
    and ``iceberg``.

    Attributes:
        kafka: One topic, or a list of topics.
        recorded: A recorded topic in place of a broker's.
        logs: Log files, one folder per interval.
        iceberg: A table of Iceberg.
    """

    kafka: Annotated[
        tuple[KafkaSourceSpec, ...], BeforeValidator(_as_list), Field(min_length=1)
    ] = ()
    recorded: RecordedSourceSpec | None = None
    logs: LogsSourceSpec | None = None
    iceberg: IcebergSourceSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_one_that_exists(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kinds = [name for name in cls.model_fields if name != UNTIL]
        given = [name for name in value if name != UNTIL or UNTIL not in cls.model_fields]
        if len(given) != 1 or given[0] not in kinds:
            got = ", ".join(given) or "none"
            raise WrongValueError(
                f"one of {', '.join(kinds)}, got {got}",
                nearest(got, kinds) if len(given) == 1 else "",
                shows_got=False,
            )
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _is_given(cls, value: Any) -> Any:
        """Refuse a kind with nothing below it; the kinds that are not named are None."""
        if value is None:
            raise WrongValueError("a mapping of fields")
        return value

    @property
    def kind(self) -> SourceKind:
        """The source that the specification has."""
        (row,) = self.model_fields_set - {UNTIL}
        given: SourceKind | tuple[KafkaSourceSpec, ...] = getattr(self, row)
        return KafkaTopics(given) if isinstance(given, tuple) else given

    @property
    def members(self) -> Mapping[str, OneSource]:
        """Name → source of the members of a union, in name order; none for any other source."""
        return {}

    @property
    def parts(self) -> tuple[OneSource, ...]:
        """The members of a union; any other source itself."""
        return tuple(self.members.values()) or (self,)

    def at(self, place: str) -> Self:
        """Return the same source for another place in dataset.yaml."""
        (row,) = self.model_fields_set
        given: Any = getattr(self, row)
        placed = tuple(each.at(place) for each in given) if row == _KAFKA else given.at(place)
        return self.model_copy(update={row: placed})


class SourceSpec(OneSource):
    """Origin of the records: one source, or several with names.

    Exactly one of ``kafka`` (in the file a mapping or a list of mappings), ``recorded``, ``logs``,
    ``iceberg`` and ``union``.

    Attributes:
        union: Several sources in the same interval: name → source. The name stands before the
            source in the position of every record, and each keeps its own ``settle``, ``late``,
            ``wait`` and ``missing``.
    """

    union: Mapping[Name, OneSource] = Field(
        default_factory=dict,
        json_schema_extra={"minProperties": FEWEST_MEMBERS, "maxProperties": MOST_MEMBERS},
    )

    @field_validator("union")
    @classmethod
    def _has_several(cls, members: Mapping[str, OneSource]) -> Mapping[str, OneSource]:
        if not FEWEST_MEMBERS <= len(members) <= MOST_MEMBERS:
            raise WrongValueError(
                f"{FEWEST_MEMBERS} to {MOST_MEMBERS} members, got {len(members)}",
                "write a source that is alone without union, and a topic like others into a list"
                " of kafka", shows_got=False,
            )  # fmt: skip
        return members

    @property
    def kind(self) -> SourceKind:
        """The source that the specification has."""
        if not self.union:
            return super().kind
        return UnionSource({name: each.kind for name, each in self.members.items()})

    @property
    def members(self) -> Mapping[str, OneSource]:
        """Name → source of the members of a union, in name order; none for any other source."""
        return {name: self.union[name].at(f"source.{UNION}.{name}") for name in sorted(self.union)}


class SourcePeriod(SourceSpec):
    """The source of some time, one of ``sources``.

    Attributes:
        until: End of the last interval that has this source, a tick of the schedule, written as
            ``start`` is. The next source of the list begins there. All sources but the last have
            one.
    """

    until: UtcTime | None = None


class PreprocessSpec(Part):
    """The user's function, ``module:name`` of a module in the data set's folder.

    Attributes:
        function: Name of the function, ``module:name``.
        input: Argument of the function: one record, or an Arrow record batch of records.
        engine: Where the function runs: ``local``, processes of the task; or ``spark``, executors
            of a cluster, which also write the shards. The result is the same.
        connection: Id of the connection of the Spark cluster; the engine ``local`` needs none.
        parameters: Name → value that the function gets as its argument ``parameters``: a bool,
            whole number, finite float or text, or a list of these. The values determine the
            content: another value is another version.
    """

    function: EntryPoint
    input: Literal["record", "batch"] = "record"
    engine: Literal["local", "spark"] = "local"
    connection: Connection = "spark_default"
    parameters: Parameters = Field(default_factory=dict)

    @property
    def module(self) -> str:
        """Name of the module, without ``.py``."""
        return self.function.partition(":")[0]

    @property
    def function_name(self) -> str:
        """Name of the function in its module."""
        return self.function.partition(":")[2]


class FieldSpec(Part):
    """One field of a sample.

    Attributes:
        dtype: Type of the values.
        shape: Length of every dimension, [] for a single value. The first one may be ``null``:
            then its length differs from sample to sample.
        optional: Whether a sample may lack the field.
    """

    dtype: Literal[
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bytes", "str",
    ]  # fmt: skip
    shape: tuple[Annotated[int, Field(ge=1)] | None, ...] = ()
    optional: bool = False

    @field_validator("shape")
    @classmethod
    def _is_storable(
        cls, shape: tuple[int | None, ...], info: ValidationInfo
    ) -> tuple[int | None, ...]:
        if shape and info.data.get("dtype") in {"bytes", "str"}:
            raise WrongValueError(f"no shape beside dtype {info.data['dtype']}", "leave it out")
        if None in shape[1:]:
            raise WrongValueError("null, a variable length, as the first dimension only")
        values = 1
        for length in shape:
            values *= length or 1
        if values > _MAX_VALUES:
            raise WrongValueError(f"at most {_MAX_VALUES} values in one sample")
        return shape

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers, so that a range can be checked."""
        return self.dtype not in {"bytes", "str"}


def _by_fields(value: Any) -> Any:
    if value == "record":
        return None
    if isinstance(value, tuple) and value and len({repr(name) for name in value}) == len(value):
        return value
    raise WrongValueError("record, or a list of different schema fields")


class SplitSpec(Part):
    """Shares of the splits by name, and the fields that keep records together.

    Attributes:
        by: ``record``, or fields: samples with equal values of them stay in one split. By
            default every record is assigned by itself; in Python that is None.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Millionths]

    by: Annotated[tuple[FieldName, ...] | None, BeforeValidator(_by_fields)] = None

    @property
    def millionths(self) -> dict[str, int]:
        """Share of each split in millionths, in name order; they sum to 1,000,000."""
        return dict(sorted(self.__pydantic_extra__.items()))


# --- ``uploads`` of a specification: labelled files that are joined with samples by key

_PLACE: Final = "uploads"
_AT_ONCE: Final = MissingRule(timedelta(0), "fail")


def _default(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if not isinstance(value, bool | int | float | str):
        raise WrongValueError("a number, a text, true or false")
    return value


Default: TypeAlias = Annotated[
    bool | int | float | str,
    BeforeValidator(_default),
    WithJsonSchema({"type": ["boolean", "number", "string"]}),
]


class UploadsSpec(Part):
    """Labelled files in ``uploads/<interval>/`` of the data set, joined by key with the samples.

    Attributes:
        key: Fields of the schema that identify a sample; every upload has a column for each.
        labels: Fields of the schema that uploads give, and that the function leaves out.
        join: Whether samples without a label are left out (``inner``) or published with
            ``defaults`` (``left``).
        defaults: Label → value in samples that no upload has; only for ``left``. An optional label
            without a default is absent.
        max_file_bytes: Size of the largest file that is accepted.
        wait: How long after ``settle`` runs of the schedule wait for a first accepted upload of an
            interval; only for ``inner``. The time counts from the interval and not from a run.
        missing: Policy for an interval without an accepted upload after that; only for ``inner``.
            ``fail``: runs fail. ``empty``: a version without samples is published. ``skip``: the
            interval is left out, and a marker says why.
    """

    key: Annotated[tuple[FieldName, ...], Field(min_length=1)]
    labels: Annotated[tuple[FieldName, ...], Field(min_length=1)]
    join: Literal["inner", "left"]
    defaults: Mapping[FieldName, Default] = Field(default_factory=dict)
    max_file_bytes: Annotated[Size, Field(ge=1)] = 1 << 30
    wait: Wait = timedelta(0)
    missing: Missing = "fail"

    @field_validator("key", "labels")
    @classmethod
    def _are_different(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise WrongValueError("different fields")
        return names

    @property
    def missing_rule(self) -> MissingRule | None:
        """The settings ``wait`` and ``missing``; None for ``left``, which needs no upload."""
        return None if self.join == "left" else MissingRule(self.wait, self.missing)

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The rule by its place in dataset.yaml; none for failing at once, as by default."""
        rule = self.missing_rule
        return {} if rule is None or rule == _AT_ONCE else {_PLACE: rule}

    def fingerprint(self) -> dict[str, Any]:
        """Return the values that determine the samples."""
        return {
            "key": list(self.key),
            "labels": list(self.labels),
            "join": self.join,
            "defaults": dict(self.defaults),
        }


def upload_contradictions(
    uploads: UploadsSpec, fields: Mapping[str, FieldSpec], split_by: tuple[str, ...]
) -> Iterator[tuple[Place, str]]:
    """Yield every violated rule of ``uploads``, with its place below ``uploads``."""
    for part in ("key", "labels"):
        for number, name in enumerate(getattr(uploads, part)):
            if name not in fields:
                hint = did_you_mean(name, fields)
                yield (part, number), f"expected a field of the schema, got {name!r}; {hint}"
    known = {name: field for name, field in fields.items() if name in uploads.labels}
    yield from _waits(uploads)
    yield from _keys(uploads, fields)
    yield from _labels(uploads, split_by)
    yield from _defaults(uploads, known)


def _waits(uploads: UploadsSpec) -> Iterator[tuple[Place, str]]:
    for name in ("wait", "missing"):
        if uploads.join == "left" and name in uploads.model_fields_set:
            text = f"expected no {name} beside join left, which publishes samples without a label"
            yield (name,), f"{text}; take it out, or choose inner"


def _keys(uploads: UploadsSpec, fields: Mapping[str, FieldSpec]) -> Iterator[tuple[Place, str]]:
    for number, name in enumerate(uploads.key):
        field = fields.get(name)
        if field is None:
            continue
        if field.optional or field.shape or field.dtype.startswith("float"):
            text = (
                "expected a field that every sample has, of a whole number, bool, str or bytes, got"
                f" {name!r}; choose another, such as an id"
            )
            yield ("key", number), text


def _labels(uploads: UploadsSpec, split_by: tuple[str, ...]) -> Iterator[tuple[Place, str]]:
    for number, name in enumerate(uploads.labels):
        if name in uploads.key:
            text = f"expected a field that is no part of the key, got {name!r}; take it out of one"
            yield ("labels", number), text
        if name in split_by:
            text = (
                f"expected a field that is not in split.by, got {name!r}: a corrected label would"
                " move samples from one split to another; split by a field of the function"
            )
            yield ("labels", number), text


def _defaults(uploads: UploadsSpec, labels: Mapping[str, FieldSpec]) -> Iterator[tuple[Place, str]]:
    if uploads.join == "inner" and uploads.defaults:
        text = "expected no defaults beside join inner, which leaves out samples without a label"
        yield ("defaults",), f"{text}; take them out, or choose left"
        return
    for name, value in uploads.defaults.items():
        if name not in uploads.labels:
            hint = did_you_mean(name, uploads.labels)
            yield ("defaults", name), f"expected a label of uploads.labels, got {name!r}; {hint}"
        elif name in labels and not _fits(labels[name], value):
            text = f"expected a value of {labels[name].dtype}, got {value!r}"
            yield ("defaults", name), f"{text}; a label of bytes or with a shape has no default"
    for number, name in enumerate(uploads.labels):
        is_absent = uploads.join == "left" and name not in uploads.defaults
        if is_absent and name in labels and not labels[name].optional:
            text = f"expected a default for {name!r} in uploads.defaults, or optional: true in the"
            yield ("labels", number), f"{text} schema, got neither; left keeps unlabelled samples"


def _fits(field: FieldSpec, value: float | str) -> bool:
    if field.shape or field.dtype == "bytes":
        return False
    if field.dtype == "str":
        return isinstance(value, str)
    if isinstance(value, str) or isinstance(value, bool) is not (field.dtype == "bool"):
        return False
    if field.dtype.startswith("float"):
        return math.isfinite(value)
    return isinstance(value, int) and _is_within(field.dtype, value)


def _is_within(dtype: str, value: int) -> bool:
    """Return whether a whole number fits into an integer dtype, such as ``uint8``."""
    if dtype == "bool":
        return True
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    low, high = (0, 1 << bits) if dtype.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
    return low <= value < high
