"""Form of the DAG ``retire`` → the intervals of a range are removed for good."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from operators._outcome import airflow_outcome
from operators._person import run_person
from operators._run_request import require_known
from operators._stage import open_dataset
from operators._told_result import tell_result
from trainfeed.errors import ConflictError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.retention import Retired

__all__ = ["RetireIntervalsOperator"]

logger = logging.getLogger(__name__)

_KNOWN: Final = ("dataset", "range", "why", "dry_run")


class RetireIntervalsOperator(BaseOperator):
    """Retire a range, in the name of the Airflow user who started the run.

    Returns:
        ``intervals`` and ``bytes`` that went or would go, ``already``: the number of intervals that
        were retired before, and ``dry_run``.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Retire the intervals; a task that is cleared completes what a killed one began."""
        from trainfeed.retention import Context as Retention
        from trainfeed.retention import retire, retire_advice, retired_lines

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, *_KNOWN)
            person = run_person(context)
            spec, env = open_dataset(params["dataset"])
            done = retire(
                Retention.of(spec, env, who=person.who, account=person.account),
                params["range"],
                params["why"],
                dry_run=params["dry_run"],
            )
            _log(done)
            name = params["dataset"]
            told = retired_lines(name, params["range"], done)
            tell_result(context, f"{name}/{params['range']}", told)
            if done.refused:
                raise ConflictError(
                    f"{len(done.refused)} of the intervals of {params['range']} cannot be retired,"
                    " the result names each with the reason; nothing was changed;"
                    f" {retire_advice(name, done.refused)}"
                )
        return {
            "intervals": len(done.intervals),
            "bytes": done.removals.num_bytes,
            "already": len(done.already),
            "dry_run": done.dry_run,
        }


def _log(done: Retired) -> None:
    verb = "would remove" if done.dry_run else "removed"
    for expired in done.removals.expired:
        item = expired.item
        logger.info("%s %s %s, %d bytes", verb, item.kind, item.name, item.num_bytes)
