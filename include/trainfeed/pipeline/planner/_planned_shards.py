"""The shards of a version: their number, fixed before anything is read."""

from __future__ import annotations

from collections.abc import Mapping

from trainfeed.dataset.order import LATE_SPLIT, check_shards, num_shards
from trainfeed.pipeline.inputs import late_policies
from trainfeed.pipeline.plans import Planned, Sizes
from trainfeed.specification import DatasetSpec

__all__ = ["planned_shards"]


def planned_shards(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, int]:
    """Return split → number of its shards, from the size of the inputs.

    Raises:
        ConfigError: There would be too many shards.
    """
    output = spec.output
    span = sum(i.end - i.start for i in inputs.values())
    planned = span // Sizes.of(spec).span_per_record
    shards = {
        split: output.shards or num_shards(planned, share, output.samples_per_shard or 1)
        for split, share in spec.split.millionths.items()
    }
    separates = "separate" in late_policies(spec, inputs).values()
    shards |= {LATE_SPLIT: 1} if separates else {}
    check_shards(spec.name, shards)
    return shards
