"""Samples in order → RecordIO shards in the run's staging folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from operators._stage import UnitOperator

if TYPE_CHECKING:
    from trainfeed.pipeline import Build, StageReport

__all__ = ["SamplesToRecordIOOperator"]


class SamplesToRecordIOOperator(UnitOperator):
    """Write the shards of one unit."""

    stage: ClassVar = "convert"

    def run_stage(self, build: Build) -> StageReport:
        """Write the unit's shards."""
        from trainfeed.pipeline.convert import convert

        return convert(build, self.unit)
