"""Landing files → samples in order, and quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from operators._stage import UnitOperator

if TYPE_CHECKING:
    from trainfeed.pipeline import Build, StageReport

__all__ = ["PreprocessOperator"]


class PreprocessOperator(UnitOperator):
    """Run the data set's function over the records of one unit."""

    stage: ClassVar = "preprocess"

    def run_stage(self, build: Build) -> StageReport:
        """Preprocess the unit."""
        from trainfeed.pipeline.workers import start_workers

        # The workers start while this process still imports modules.
        start_workers(build.spec.resources.processes)
        from trainfeed.pipeline.preprocess import preprocess

        return preprocess(build, self.unit)
