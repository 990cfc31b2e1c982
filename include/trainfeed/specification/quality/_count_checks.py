"""Options of gates on the counts of a build, and on the sizes of its shards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from trainfeed.specification._spec_values import Number
from trainfeed.specification.quality._quality_check import Check, Ratio, require_range

__all__ = ["CountCheck", "LateRatioCheck", "QuarantineRatioCheck", "ShardSkewCheck"]


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
