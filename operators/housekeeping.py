"""Removes the files that killed and abandoned builds left behind."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._run_request import require_known

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["HousekeepingOperator"]

logger = logging.getLogger(__name__)


class HousekeepingOperator(BaseOperator):
    """Remove leftovers that were not modified for the given hours; versions and landed data stay.

    Returns:
        ``leftovers`` (their number) and ``bytes``; the log has the name of each.
    """

    def execute(self, context: Context) -> dict[str, int]:
        """Sweep all data sets; in a dry run, only log what would be removed."""
        from trainfeed.pipeline.upkeep import sweep

        params = context["params"]
        with airflow_outcome():
            require_known(params, "older_than", "dry_run")
            removed = sweep(
                environment_from_connections(()),
                older_than=timedelta(hours=params["older_than"]),
                dry_run=params["dry_run"],
            )
        for each in removed:
            logger.info("%s, %d bytes, last touched %s", each.place, each.bytes, each.modified)
        return {"leftovers": len(removed), "bytes": sum(each.bytes for each in removed)}
