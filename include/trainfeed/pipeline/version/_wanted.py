"""Refuses to publish what was withdrawn or retired, as far as the plan does not know of it."""

from __future__ import annotations

from trainfeed.dataset import Version
from trainfeed.dataset.retire import retirement_of
from trainfeed.dataset.withdraw import withdrawn_alike
from trainfeed.errors import RetiredError, WithdrawnError
from trainfeed.pipeline.stage import Stage

__all__ = ["require_wanted"]


def require_wanted(stage: Stage) -> None:
    """Compare a staged version with the end of its interval; hold the interval's lock.

    Raises:
        ConflictError: The number was given up.
        RetiredError: The interval was retired since a plan without a reason was made.
        WithdrawnError: The same was withdrawn, before the plan was made or since.
        StorageError: The publication root refused or failed.
    """
    _require_not_retired(stage)
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


def _require_not_retired(stage: Stage) -> None:
    """Refuse a number that is marked, and an interval that nobody gave a reason to build again."""
    stage.published()
    interval = stage.plan.interval["name"]
    retired = None if stage.plan.rebuild else retirement_of(stage.folder, interval)
    if retired is not None:
        raise RetiredError(
            f"{stage.plan.dataset}/{retired.told}, while plan {stage.plan.plan_id} was at work;"
            " nothing was published; a build with a reason makes it again: trainfeed build"
            f" {stage.plan.dataset} --interval {interval} --rebuild 'WHY'"
        )
