"""The timetable of a data set's intervals, with their first and last one as bounds.

A DAG with an ``end_date`` makes no tasks for a run with a later logical date: a run triggered
today would be green and do nothing. DAGs therefore have no ``end_date``, and a ``start_date``
before every interval. The bounds are in the timetable, where only the schedule and backfills use
them.

The scheduler, the API server and the DAG processor load this class by name, so a plugin has to
register it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.types import DagRunType
from pendulum import DateTime, instance

from trainfeed.core.intervals import Schedule, format_time, parse_time
from trainfeed.errors import WindowError

if TYPE_CHECKING:
    from trainfeed.core.intervals import Interval


# Start date of every DAG: no schedule has an earlier tick.
BEFORE_ALL: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATS: Final = ("%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H%M")


class IntervalTimetable(CronDataIntervalTimetable):
    """The intervals of a schedule, from its first to its last.

    A run that is triggered with a logical date is for the last interval that had ended by then. If
    the schedule has no such interval, the first task fails with that message.

    Args:
        schedule: The schedule of the data set.
    """

    def __init__(self, schedule: Schedule) -> None:
        # In a zone, too: the ticks are then those of the schedule, and Airflow computes none.
        super().__init__(schedule.cron, timezone="UTC")
        self.schedule = schedule
        if schedule.zone is not None and self.description:
            self.description = f"{self.description}, {schedule.zone}"

    @property
    def summary(self) -> str:
        """The schedule in lists of DAGs: its cron expression, and its zone if it has one."""
        zone = self.schedule.zone
        return super().summary if zone is None else f"{super().summary} {zone}"

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> IntervalTimetable:
        """Return the timetable from the JSON of :meth:`serialize`."""
        last = None if data["last"] is None else parse_time(data["last"])
        return cls(Schedule(data["cron"], parse_time(data["first"]), last, data.get("zone")))

    def serialize(self) -> dict[str, Any]:
        """Return cron expression, first and last start as JSON; last is None if it is endless.

        The zone is there if the schedule has one.
        """
        last, zone = self.schedule.last, self.schedule.zone
        return {
            **({} if zone is None else {"zone": zone}),
            "cron": self.schedule.cron,
            "first": format_time(self.schedule.first),
            "last": None if last is None else format_time(last),
        }

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same intervals."""
        if not isinstance(other, IntervalTimetable):
            return NotImplemented
        return self.schedule == other.schedule

    def __hash__(self) -> int:
        """Return a hash that is equal for equal timetables."""
        return hash(self.schedule)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """Return the run after the given one, or None; for the schedule and backfills."""
        first = instance(self.schedule.first)
        earliest, latest = restriction.earliest or first, restriction.latest
        if self.schedule.last is not None:
            last = instance(self.schedule.last)
            latest = min(latest or last, last)
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval,
            restriction=TimeRestriction(max(earliest, first), latest, restriction.catchup),
        )

    def _get_next(self, current: DateTime) -> DateTime:
        if self.schedule.zone is None:
            return super()._get_next(current)
        return instance(self.schedule.tick_after(current))

    def _get_prev(self, current: DateTime) -> DateTime:
        if self.schedule.zone is None:
            return super()._get_prev(current)
        return instance(self.schedule.tick_before(current))

    def generate_run_id(
        self,
        *,
        run_type: DagRunType,
        run_after: DateTime,
        data_interval: DataInterval | None,
        **extra: Any,
    ) -> str:
        """Return the name of a run, ``scheduled__2013-01-01``; Airflow names triggered runs.

        Two intervals never share a name, even if one is of an earlier schedule of the data set:
        the name has the time of day whenever the interval's own name leaves it out.
        """
        if data_interval is None or run_type is DagRunType.MANUAL:
            return super().generate_run_id(
                run_type=run_type, run_after=run_after, data_interval=data_interval, **extra
            )
        return run_type.generate_run_id(suffix=self._exact_name(data_interval))

    def interval_of(self, data_interval: DataInterval) -> Interval | None:
        """Return the interval of the schedule with the start of a data interval, or None."""
        try:
            return self.schedule.interval_starting(data_interval.start)
        except WindowError:
            return None

    def _exact_name(self, data_interval: DataInterval) -> str:
        start, interval = data_interval.start, self.interval_of(data_interval)
        texts = [start.strftime(form) for form in _FORMATS]
        if interval is not None:
            texts.insert(0, interval.name)
        return next((text for text in texts if parse_time(text) == start), start.isoformat())


# Airflow loads only timetables whose classes a plugin has registered.
TIMETABLES: Final = [IntervalTimetable]
