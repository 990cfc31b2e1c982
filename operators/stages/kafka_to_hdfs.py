"""Planned offset ranges of Kafka topics → landing files on HDFS."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from operators._stage import UnitOperator

if TYPE_CHECKING:
    from trainfeed.pipeline import Build, StageReport

__all__ = ["KafkaToHdfsOperator"]


class KafkaToHdfsOperator(UnitOperator):
    """Land the offset ranges of one unit; complete landing files are adopted, not read again."""

    stage: ClassVar = "ingest"

    def run_stage(self, build: Build) -> StageReport:
        """Land the unit."""
        from trainfeed.pipeline.ingest import ingest

        return ingest(build, self.unit)
