"""Removes what killed builds and launches left, and finds what homes on shared storage lost."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._run_request import require_known
from operators._told_result import tell_result
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline.upkeep import Swept
    from trainfeed.training.kept_jobs import KeptJob, LeftObject

__all__ = ["HousekeepingOperator", "SharedStorageOperator"]

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
        from trainfeed.training.kept_jobs import abandoned_launches, sweep_launches

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, "older_than", "dry_run", "mount", "datacenter")
            age, dry_run = timedelta(hours=params["older_than"]), params["dry_run"]
            env = environment_from_connections(())
            jobs = abandoned_launches(Path(env.root), older_than=age)
            files = sweep(env, older_than=age, dry_run=dry_run)
            launches = sweep_launches(jobs, _clusters(jobs), dry_run=dry_run)
        removed: list[Swept | LeftObject] = [*files, *launches]
        size = sum(each.bytes for each in removed)
        verb = "would be removed" if dry_run else "removed"
        lines = [
            f"{each.place}, {each.bytes} bytes, last touched {each.modified}" for each in removed
        ]
        tell_result(
            context, "leftovers", [f"{len(removed)} leftovers {verb}, {size} bytes", *lines]
        )
        return {"leftovers": len(removed), "bytes": size}


class SharedStorageOperator(BaseOperator):
    """Compare quotas and namespaces of homes with what an administrator gave; change nothing.

    Ceph lets every key that reads a folder remove its namespace. The task fails if some attributes
    are gone: the log has each, and ``trainfeed pfs user add`` puts them back. Without a mount in
    the form, the task is skipped.
    """

    def execute(self, context: Context) -> None:
        """Look at all homes of a data centre."""
        from trainfeed.pfs.users import require_attributes

        mount, datacenter = (context["params"].get(each) for each in ("mount", "datacenter"))
        if not mount and not datacenter:
            raise AirflowSkipException("no mount of shared storage is named in the form")
        with airflow_outcome(context):
            if not mount or not datacenter:
                raise ConfigError(
                    "expected the mount of the shared storage and the name of its data centre, got"
                    " one of them; nothing was looked at; give both, or none"
                )
            require_attributes(Path(mount), datacenter)


def _clusters(jobs: Iterable[KeptJob]) -> dict[str, Mapping[str, Any]]:
    """Return the settings of the jobs' clusters; a connection that is gone is left out."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in sorted({each.job.placement.connection for each in jobs if each.job.placement}):
        try:
            found |= environment_from_connections((), clusters=[name]).clusters
        except ConfigError as error:
            logger.warning("the launches on cluster %r are not swept: %s", name, error)
    return found
