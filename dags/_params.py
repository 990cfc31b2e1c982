"""The parameters of runs: what the trigger form asks, and what REST and backfills may set."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from airflow.sdk import Param

from trainfeed.spec import DatasetSpec

__all__ = ["build_params", "window_param"]

_REASON: Final[dict[str, Any]] = {"type": ["null", "string"], "minLength": 3, "maxLength": 500}
_EXAMPLES: Final = 3


def build_params(spec: DatasetSpec) -> dict[str, Param]:
    """The parameters of ``build.<data set>``."""
    return {
        "window_start": window_param(spec),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only say what would be read, built and published, with sizes, in the log"
            " of the task `plan`. Nothing is written; the other tasks are skipped, no training"
            " starts.",
        ),
        "rebuild": Param(
            None,
            **_REASON,
            title="Rebuild: why",
            description="Make a further generation of the interval, although it has one. The"
            " reason is recorded, for example: `label was off by one`.",
        ),
        "allow_gap": Param(
            None,
            **_REASON,
            title="Allow a gap: why",
            description="Build although the source has deleted records of the interval. The reason"
            " and the missing positions are recorded, for example: `broker lost a disk on 3 May`.",
        ),
    }


def window_param(spec: DatasetSpec) -> Param:
    """The parameter that sends a triggered run to one interval.

    The form has a date picker where every tick is a midnight, one for date and time elsewhere. A
    value of another form is refused at once; whether it is a tick, not in the future and within
    the schedule is what the first task finds out, and says.
    """
    schedule = spec.schedule_model()
    ticks = list(islice(schedule.intervals(), _EXAMPLES))
    daily = all(len(interval.name) == len("2013-01-01") for interval in ticks)
    examples = [i.name if daily else f"{i.start:%Y-%m-%dT%H:%M:%SZ}" for i in ticks]
    last = ""
    if schedule.last is not None:
        last = f" to {schedule.interval_starting(schedule.last).name}"
    return Param(
        None,
        type=["null", "string"],
        format="date" if daily else "date-time",
        examples=examples,
        title="Window start",
        description=f"Start of the interval, UTC: a tick of the schedule `{spec.schedule}`, from"
        f" {ticks[0].name}{last}, such as {examples[-1]}. Leave it empty in a backfill, where the"
        " dates of the backfill decide.",
    )
