"""The input side of a specification: source, function, schema and splits.

The models here check single fields; rules across several fields are in ``_checks``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from trainfeed.specification._logs import LogsSourceSpec
from trainfeed.specification._near_names import (
    nearest,
)
from trainfeed.specification._source_kind import SourceKind
from trainfeed.specification._spec_values import (
    Connection,
    EntryPoint,
    FieldName,
    Millionths,
    Part,
    WrongValueError,
)
from trainfeed.specification._topics import KafkaSourceSpec, KafkaTopics, RecordedSourceSpec

__all__ = ["FieldSpec", "LookupType", "PreprocessSpec", "SourceSpec", "SplitSpec"]

_MAX_VALUES = 1 << 26  # most values of a field in one sample: larger shapes are typing mistakes


LookupType: TypeAlias = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "str",
]  # fmt: skip


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else value


class SourceSpec(Part):
    """Origin of the records: Kafka topics, one recorded topic, or log files.

    Exactly one of ``kafka`` (in the file a mapping or a list of mappings), ``recorded`` and
    ``logs``.

    Attributes:
        kafka: One topic, or a list of topics.
        recorded: A recorded topic in place of a broker's.
        logs: Log files, one folder per interval.
    """

    kafka: Annotated[
        tuple[KafkaSourceSpec, ...], BeforeValidator(_as_list), Field(min_length=1)
    ] = ()
    recorded: RecordedSourceSpec | None = None
    logs: LogsSourceSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_one_that_exists(cls, value: Any) -> Any:
        if isinstance(value, dict) and (len(value) != 1 or value.keys() - cls.model_fields):
            got = ", ".join(value) or "none"
            raise WrongValueError(
                f"one of {', '.join(cls.model_fields)}, got {got}",
                nearest(got, cls.model_fields) if len(value) == 1 else "",
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
        (row,) = self.model_fields_set
        given: SourceKind | tuple[KafkaSourceSpec, ...] = getattr(self, row)
        return KafkaTopics(given) if isinstance(given, tuple) else given


class PreprocessSpec(Part):
    """The user's function, ``module:name`` of a module in the data set's folder.

    Attributes:
        function: Name of the function, ``module:name``.
        input: Argument of the function: one record, or an Arrow record batch of records.
        engine: Where the function runs: ``local``, processes of the task; or ``spark``, executors
            of a cluster, which also write the shards. The result is the same.
        connection: Id of the connection of the Spark cluster; the engine ``local`` needs none.
    """

    function: EntryPoint
    input: Literal["record", "batch"] = "record"
    engine: Literal["local", "spark"] = "local"
    connection: Connection = "spark_default"

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
