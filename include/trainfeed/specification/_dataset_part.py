"""The output side of a specification: files, resources."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from trainfeed.paths import MAX_SHARDS
from trainfeed.specification._spec_values import (
    Duration,
    Part,
    Size,
    Text,
    WrongValueError,
)

__all__ = ["OutputSpec", "ResourceSpec"]

_LEVELS = {"zstd": (1, 22), "gzip": (1, 9)}
_DEFAULT_LEVELS = {"zstd": 1, "gzip": 6}


def _default_codec(fields: dict[str, Any]) -> Literal["none", "zstd"]:
    return "none" if fields.get("format") == "tfrecord" else "zstd"


class OutputSpec(Part):
    """The files of a version.

    Attributes:
        format: Format of the shards: RecordIO, or TFRecord files of Examples.
        codec: Compression of the chunks, zstd by default. TFRecord files of a data set are never
            compressed.
        level: Compression level, by default that of the codec; None for codecs without levels.
        chunk_bytes: Record bytes, before compression, at which a chunk is closed; for TFRecord a
            run of records that is read at once.
        shards: Number of shards per split; without it ``samples_per_shard`` decides.
        samples_per_shard: Intended number of samples in a shard; without it ``shards`` decides.
        positions: Whether the position of every sample is published.
    """

    format: Literal["recordio", "tfrecord"] = "recordio"
    codec: Literal["none", "snappy", "gzip", "lz4", "zstd"] = Field(
        default_factory=_default_codec, json_schema_extra={"default": "zstd"}
    )
    level: Annotated[int | None, Field(validate_default=True)] = None
    chunk_bytes: Annotated[Size, Field(ge=1, le=32 << 20)] = 1 << 20
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] | None = None
    samples_per_shard: Annotated[
        Annotated[int, Field(ge=1)] | None, Field(validate_default=True)
    ] = None
    positions: bool = True

    @field_validator("codec")
    @classmethod
    def _fits_the_format(cls, codec: str, info: ValidationInfo) -> str:
        if info.data.get("format") == "tfrecord" and codec != "none":
            # TFRecord files are compressed as a whole: a shard could only be read from its start.
            raise WrongValueError("codec none beside format tfrecord", "leave it out")
        return codec

    @field_validator("level")
    @classmethod
    def _fits_the_codec(cls, level: int | None, info: ValidationInfo) -> int | None:
        codec = info.data.get("codec")
        if level is None or codec is None:
            return _DEFAULT_LEVELS.get(codec or "")
        if codec not in _LEVELS:
            raise WrongValueError(f"no level beside codec {codec}", "leave it out")
        low, high = _LEVELS[codec]
        if not low <= level <= high:
            raise WrongValueError(f"a level of {codec} from {low} to {high}")
        return level

    @field_validator("samples_per_shard")
    @classmethod
    def _is_the_only_aim(cls, samples: int | None, info: ValidationInfo) -> int | None:
        if info.data.get("shards") is None:
            return 100_000 if samples is None else samples
        if samples is not None:
            raise WrongValueError("one of shards and samples_per_shard", "leave one out")
        return None


class ResourceSpec(Part):
    """Resources of a build; nothing here changes its result.

    Attributes:
        pool: Scheduler pool of the tasks that read the source.
        max_active_runs: Number of intervals that are built at once. Runs that wait for log files do
            not count; of the other runs, this many are planned, checked and published at once.
        records_per_task: Approximate number of source records for one task of a stage.
        memory_bytes: Memory in which one task sorts samples; further samples go through files. A
            sample may take a tenth of it.
        processes: Number of processes in which a task runs the preprocessing function.
        worker_memory_bytes: Memory of one of these processes; a process that takes more is ended.
        time_limit: Time of one of these processes for its part of a task.
    """

    pool: Text | None = None
    max_active_runs: Annotated[int, Field(ge=1)] = 4
    records_per_task: Annotated[int, Field(ge=1)] = 100_000
    memory_bytes: Annotated[Size, Field(ge=1 << 20, lt=1 << 31)] = 512 << 20
    processes: Annotated[int, Field(ge=1, le=256)] = 1
    worker_memory_bytes: Annotated[Size, Field(ge=256 << 20)] = 4 << 30
    time_limit: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(hours=1)

    @property
    def task_memory_bytes(self) -> int:
        """``memory_bytes`` of a task that runs alone: the limit for its quarantined records."""
        return self.memory_bytes
