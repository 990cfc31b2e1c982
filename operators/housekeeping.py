"""Removes what killed and abandoned builds and launches left behind."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._run_request import require_known

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline.upkeep import Swept
    from trainfeed.training.abandoned import LeftObject

__all__ = ["HousekeepingOperator"]

logger = logging.getLogger(__name__)


class HousekeepingOperator(BaseOperator):
    """Remove leftovers that were not modified for the given hours; versions and landed data stay.

    Code and services that abandoned launches left on clusters are removed as well.

    Returns:
        ``leftovers`` (their number) and ``bytes``; the log has the name of each.
    """

    def execute(self, context: Context) -> dict[str, int]:
        """Sweep all data sets; in a dry run, only log what would be removed."""
        from trainfeed.pipeline.upkeep import sweep

        params = context["params"]
        with airflow_outcome():
            require_known(params, "older_than", "dry_run")
            age, dry_run = timedelta(hours=params["older_than"]), params["dry_run"]
            env = environment_from_connections(())
            files = sweep(env, older_than=age, dry_run=dry_run)
            launches = _launches(Path(env.root), age, dry_run=dry_run)
        removed: list[Swept | LeftObject] = [*files, *launches]
        for each in removed:
            logger.info("%s, %d bytes, last touched %s", each.place, each.bytes, each.modified)
        return {"leftovers": len(removed), "bytes": sum(each.bytes for each in removed)}


def _launches(root: Path, age: timedelta, *, dry_run: bool) -> list[LeftObject]:
    from trainfeed.training.abandoned import abandoned_launches, sweep_launches

    jobs = abandoned_launches(root, older_than=age)
    names = {each.job.placement.connection for each in jobs if each.job.placement}
    if not names:
        return []
    env = environment_from_connections((), clusters=sorted(names))
    return sweep_launches(jobs, env.clusters, dry_run=dry_run)
