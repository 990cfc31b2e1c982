"""Refuses to publish content that was withdrawn, as far as the plan does not acknowledge it."""

from __future__ import annotations

from trainfeed.dataset import Version
from trainfeed.dataset.withdrawals import withdrawn_alike
from trainfeed.errors import WithdrawnError
from trainfeed.pipeline.stage import Stage

__all__ = ["require_wanted"]


def require_wanted(stage: Stage) -> None:
    """Compare a staged version with the withdrawals of its interval; hold the interval's lock.

    Raises:
        WithdrawnError: The same was withdrawn, before the plan was made or since.
        StorageError: The publication root refused or failed.
    """
    manifest = Version.open(stage.staged).manifest
    interval = stage.plan.interval["name"]
    alike = withdrawn_alike(
        stage.folder,
        interval,
        fingerprint=manifest.fingerprint,
        content_digest=manifest.content_digest,
        known=stage.plan.acknowledges,
    )
    if alike:
        name = f"{stage.plan.dataset}/{interval}/{stage.version_path.name}"
        raise WithdrawnError(
            f"{name} has the content of a withdrawn version: {alike[-1].told}; nothing was"
            " published; correct the cause (records, code, lookups) and build, or take the"
            f" withdrawal back: trainfeed restore {alike[-1].name} --why WHY; to publish the same"
            f" all the same: trainfeed build {stage.plan.dataset} --interval {interval} --rebuild"
            " WHY, with a reason that is new (Airflow: parameter 'rebuild')"
        )
