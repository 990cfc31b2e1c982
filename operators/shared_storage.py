"""Finds what users removed from the attributes of their homes on shared storage."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from operators._outcome import airflow_outcome
from trainfeed.errors import ConfigError, UnsuitableStoreError

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["SharedStorageOperator"]

logger = logging.getLogger(__name__)

_SHOWN: Final = 10


class SharedStorageOperator(BaseOperator):
    """Compare quotas and namespaces of homes with what an administrator gave; change nothing.

    Ceph lets every key that reads a folder remove these attributes. The task fails if some are
    gone: the log has each, and ``trainfeed pfs user add`` puts them back. Without a mount in the
    form, the task is skipped.

    Returns:
        The number of differences, which is 0.
    """

    def execute(self, context: Context) -> int:
        """Look at all homes of a data centre."""
        from trainfeed.pfs.users import lost_attributes

        mount, datacenter = (context["params"].get(each) for each in ("mount", "datacenter"))
        if not mount and not datacenter:
            raise AirflowSkipException("no mount of shared storage is named in the form")
        with airflow_outcome(context):
            if not mount or not datacenter:
                raise ConfigError(
                    "expected the mount of the shared storage and the name of its data centre, got"
                    " one of them; nothing was looked at; give both, or none"
                )
            lost = lost_attributes(Path(mount), datacenter)
            for each in lost:
                logger.error("%s", each)
            if lost:
                raise UnsuitableStoreError(
                    f"expected the attributes that an administrator gave to the homes of"
                    f" {datacenter}, got {len(lost)} others: {'; '.join(lost[:_SHOWN])}"
                    f"{'; …' if len(lost) > _SHOWN else ''}; nothing was changed; put them back"
                    " with: trainfeed pfs user add NAME"
                )
        return len(lost)
