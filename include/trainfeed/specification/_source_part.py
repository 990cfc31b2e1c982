"""What goes into a data set: source, function, schema and splits.

Fields are checked one by one here; rules across them live in ``_checks``.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
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
from trainfeed.specification._problems import nearest
from trainfeed.specification._spec_values import (
    Connection,
    Duration,
    EntryPoint,
    FieldName,
    Millionths,
    Part,
    Text,
    Topic,
    WrongValueError,
)

__all__ = [
    "FieldSpec",
    "KafkaSourceSpec",
    "PreprocessSpec",
    "RecordedSourceSpec",
    "SourceSpec",
    "SplitSpec",
]

_MAX_VALUES = 1 << 26  # of one field of one sample; a typing mistake, not a sample, has more

Late: TypeAlias = Literal["keep", "separate", "fail"]


class KafkaSourceSpec(Part):
    """One Kafka topic.

    Attributes:
        connection: Names the Kafka settings of the environment.
        topic: Name of the topic.
        settle: How long after its end an interval is planned at the earliest.
        late: What becomes of records that are older than the interval of their offset; ``fail``
            refuses those that are stamped later than its end and ``skew`` as well.
        skew: How far from a boundary's time the records around it are stamped at most; what is
            stamped later than an interval's end by more is refused by ``late: fail``. In the
            search for boundaries it is only a guide: the offsets that were found determine the
            content.
        transaction_wait: How long runs of the schedule and of backfills look again while a
            transaction that is open may hide records of the interval; then they fail.
    """

    connection: Connection = "kafka_default"
    topic: Topic
    settle: Duration = timedelta(minutes=10)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)
    transaction_wait: Duration = timedelta(hours=1)


class RecordedSourceSpec(Part):
    """A recorded topic: a folder of landing files, read as if a broker served it.

    Attributes:
        path: Path or URI of the folder. A path that begins with ``./`` starts in the data set's
            folder, another relative one in the working directory.
        settle: How long after its end an interval is planned at the earliest.
        late: What becomes of records that are older than the interval of their offset; ``fail``
            refuses those that are stamped later than its end and ``skew`` as well.
        skew: How far from a boundary's time the records around it are stamped at most; what is
            stamped later than an interval's end by more is refused by ``late: fail``.
    """

    path: Text
    settle: Duration = timedelta(0)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)

    def location(self, folder: str | os.PathLike[str]) -> str:
        """URI or absolute path of the topic, for a data set in ``folder``."""
        if "://" in self.path:
            return self.path
        base = Path(folder) if self.path.startswith("./") else Path()
        return str((base / self.path).absolute())


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else value


class SourceSpec(Part):
    """Where the records come from: Kafka topics, one recorded topic, or log files.

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
                f"one of kafka, recorded, logs, got {got}",
                nearest(got, cls.model_fields) if len(value) == 1 else "",
                shows_got=False,
            )
        return value

    @property
    def topics(self) -> tuple[KafkaSourceSpec | RecordedSourceSpec, ...]:
        """All topics, whichever kind they are; none when the source is log files."""
        return self.kafka if self.recorded is None else (self.recorded,)

    @property
    def settle(self) -> timedelta:
        """The longest ``settle`` of all sources: what the interval as a whole waits for."""
        if self.logs is not None:
            return self.logs.settle
        return max(topic.settle for topic in self.topics)

    @property
    def lands(self) -> bool:
        """Whether ingest copies the records into landing files, which preprocess then reads.

        Topics always land. Log files land if ``logs.land`` says so; else preprocess reads them.
        """
        return self.logs is None or self.logs.land

    @property
    def transaction_wait(self) -> timedelta:
        """The longest ``transaction_wait`` of all topics; none when no broker serves them."""
        return max((topic.transaction_wait for topic in self.kafka), default=timedelta(0))


class PreprocessSpec(Part):
    """The user's function, ``module:name`` of a module in the data set's folder.

    Attributes:
        function: ``module:name``.
        input: What it is called with: one record, or an Arrow record batch of them.
        engine: Where it runs: in the processes of the task.
    """

    function: EntryPoint
    input: Literal["record", "batch"] = "record"
    engine: Literal["local"] = "local"

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
        dtype: Type of its values.
        shape: Length of every dimension, [] for a single value. A first one of any length is None
            (null in the file).
        optional: Whether a sample may lack it.
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
        """Whether its values have an order, so that a range means something."""
        return self.dtype not in {"bytes", "str"}


def _by_fields(value: Any) -> Any:
    if value == "record":
        return None
    if isinstance(value, tuple) and value and len({repr(name) for name in value}) == len(value):
        return value
    raise WrongValueError("record, or a list of different schema fields")


class SplitSpec(Part):
    """Shares of the splits by name, and what keeps records together.

    Attributes:
        by: None for single records (``record`` in the file), or the fields whose equal values
            stay in one split.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Millionths]

    by: Annotated[tuple[FieldName, ...] | None, BeforeValidator(_by_fields)] = None

    @property
    def millionths(self) -> dict[str, int]:
        """Share of each split in millionths, in name order; they sum to 1,000,000."""
        return dict(sorted(self.__pydantic_extra__.items()))
