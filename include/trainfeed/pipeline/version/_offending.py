"""Finds samples that break a gate on a field: what its value alone does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from trainfeed.pipeline.quarantine import Example, plain
from trainfeed.pipeline.sorting import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version._gates import GateResult
from trainfeed.samples import Schema, TypedCodec

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["offending_samples"]

_MOST_EXAMPLES: Final = 2
# Decoding one by one takes about 10 µs: a failed task may take a second more, not an hour.
_MOST_SAMPLES: Final = 100_000


def offending_samples(stage: Stage, result: GateResult) -> list[Example]:
    """Return the first samples, of the first 100,000 of the work files, that break a gate.

    Args:
        stage: The stage at work.
        result: A gate ``range`` or ``null_ratio`` with its field; of others there is no sample.

    Returns:
        At most 2; none when those that break it come later.
    """
    field = result.field
    if field is None:
        return []
    samples = islice(_samples(stage), _MOST_SAMPLES)
    found = (
        Example(plain(source), offset, f"{field} is {_shown(sample.get(field))}", "")
        for source, offset, sample in samples
        if _breaks(result, sample.get(field))
    )
    return list(islice(found, _MOST_EXAMPLES))


def _samples(stage: Stage) -> Iterator[tuple[str, int, Mapping[str, object]]]:
    codec = TypedCodec(Schema.from_json(stage.plan.fields))
    sources = stage.plan.sources
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.spill_file(group))) as spill:
            for table in spill.iter_tables():
                columns = (table[name].to_pylist() for name in ("source", "offset", "record"))
                for source, offset, record in zip(*columns, strict=True):
                    yield sources[source], offset, dict(codec.decode(record))


def _breaks(result: GateResult, value: object) -> bool:
    if result.check == "null_ratio":
        return value is None
    if value is None:
        return False
    numbers = np.asarray(cast("ArrayLike", value), dtype=np.float64)
    low, high = (cast("float | None", result.gate.get(side)) for side in ("min", "max"))
    outside = ~np.isfinite(numbers)
    if low is not None:
        outside |= numbers < low
    if high is not None:
        outside |= numbers > high
    return bool(outside.any())


def _shown(value: object) -> str:
    if value is None:
        return "absent"
    return plain(str(value.tolist() if isinstance(value, np.ndarray | np.generic) else value))
