"""Staged shards → proof of completeness and quality."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from operators._stage import StageOperator

if TYPE_CHECKING:
    from trainfeed.pipeline import Build, StageReport

__all__ = ["CheckOperator"]


class CheckOperator(StageOperator):
    """Recompute the ledger from the written files, and evaluate the quality gates."""

    stage: ClassVar = "check"

    def run_stage(self, build: Build) -> StageReport:
        """Check the staged version."""
        from trainfeed.pipeline.check import check

        return check(build)
