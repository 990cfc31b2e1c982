"""Reads the samples of a build for gates that look at every one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.pipeline.quarantine import Example, plain
from trainfeed.pipeline.sorting import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage, measured_again
from trainfeed.samples import Schema, TypedCodec

__all__ = ["SampleColumns", "StagedSamples", "shown_value"]

_MOST_CHARS: Final = 60


@dataclass(frozen=True)
class SampleColumns:
    """Samples of one batch of a work file.

    Attributes:
        names: Source strings, by source index.
        sources: Source index of every sample, shape (n,).
        offsets: Offset of every sample's record, shape (n,).
        columns: Field → values, as ``TypedCodec.decode_columns`` returns them.
    """

    names: Sequence[str]
    sources: NDArray[np.int32]
    offsets: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.offsets)

    def place(self, row: int) -> tuple[str, int]:
        """Return source string and offset of a sample's record."""
        return plain(self.names[self.sources[row]]), int(self.offsets[row])

    def example(self, row: int, message: str) -> Example:
        """Return a sample as an example of a message."""
        return Example(*self.place(row), message, "")


class StagedSamples:
    """The samples of a build, from the work files of ``preprocess``; can be read repeatedly.

    Args:
        stage: The stage at work.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._codec = TypedCodec(Schema.from_json(stage.plan.fields))

    def __iter__(self) -> Iterator[SampleColumns]:
        """Yield all samples, in an order that the plan determines.

        Raises:
            FormatError: A work file is damaged.
            StorageError: A work file cannot be read.
        """
        with measured_again(self._stage):
            for group in range(len(self._stage.plan.preprocess)):
                with closing(ArrowWithTrailer(self._stage.spill_file(group))) as spill:
                    for table in spill.iter_tables():
                        if len(table):
                            yield self._decoded(table)

    def _decoded(self, table: pa.Table) -> SampleColumns:
        records = table["record"].to_pylist()
        framing = b"".join(
            part for record in records for part in (len(record).to_bytes(4, "little"), record)
        )
        return SampleColumns(
            names=self._stage.plan.sources,
            sources=table["source"].to_numpy(),
            offsets=table["offset"].to_numpy(),
            columns=self._codec.decode_columns(memoryview(framing), len(records)),
        )


def shown_value(value: object) -> str:
    """Return a value of a field as short text without secrets, for messages."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    text = plain(repr(value) if isinstance(value, str | bytes) else str(value))
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
