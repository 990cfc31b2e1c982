"""Which trainings a build starts: its own if it is wished, and those whose events were lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow.sdk.exceptions import AirflowRuntimeError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.core.config import Environment
    from trainfeed.core.intervals import Interval
    from trainfeed.pipeline import JsonObject
    from trainfeed.specification import DatasetSpec
    from trainfeed.versions import DatasetFolder, Untrained


# --- The parameter ``training`` of a build: whether a training of the run's own interval starts

logger = logging.getLogger(__name__)

_ACTIVE: Final = ["queued", "running"]
# Dates per request: they are part of its URL, whose length is limited.
_DATES: Final = 100
# Beginning of the reasons of intervals that left their training to a later one.
_LAST: Final = "training: last, and "


def why_declined(
    spec: DatasetSpec, folder: DatasetFolder, interval: str, context: Context
) -> str | None:
    """Return the reason why no training of the run's interval starts; None when one starts.

    A run of an interval that is skipped counts no more. It may skip its interval at any moment, so
    ask again after the version is published: this run sees the skip, or ``hand_over`` of that run
    sees the version.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        interval: Name of the interval that the run builds.
        context: Context of the task; the run's parameter ``training`` is each, last or none.

    Raises:
        WindowError: The interval is no tick of the schedule any more.
        StorageError: The publication root refused or failed.
    """
    wish = context["params"].get("training") or "each"
    if wish == "each":
        return None
    if wish == "none":
        return "the run was started with training: none"
    later = _taken_later(spec, folder, interval, context)
    return None if later is None else f"{_LAST}{later}"


def hand_over(
    spec: DatasetSpec, folder: DatasetFolder, interval: str, context: Context
) -> Untrained | None:
    """Let the version before a skipped interval count as untrained, if it left its training to it.

    Call it after the marker of the skip is written.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        interval: Name of the interval that the run has skipped.
        context: Context of the task; the run's parameter ``training`` is each, last or none.

    Returns:
        The version; None when there is none, or a later interval takes the wish.

    Raises:
        StorageError: The publication root refused or failed.
    """
    from trainfeed.versions import TrainingMarks

    if context["params"].get("training") != "last":
        return None
    published = (n for n in folder.intervals() if folder.current_generation(n) is not None)
    newest = max((name for name in published if name < interval), default=None)
    marks = TrainingMarks(folder)
    for each in marks.declined():
        if each.version.interval == newest and each.why.startswith(_LAST):
            if _taken_later(spec, folder, newest, context) is not None:
                return None
            marks.accept(each.version)
            return each.version
    return None


def _taken_later(
    spec: DatasetSpec, folder: DatasetFolder, interval: str, context: Context
) -> str | None:
    """Return what shows that a later interval is trained on, or None."""
    own = spec.schedule_model().interval_named(interval)
    return _being_built(spec, folder, own, context) or _asked_for(folder, interval, context)


def _asked_for(folder: DatasetFolder, interval: str, context: Context) -> str | None:
    from trainfeed.versions import TrainingMarks

    run = context["dag_run"]
    found = TrainingMarks(folder).asked_since(run.start_date or run.run_after, after=interval)
    return None if found is None else f"{found} has asked for its training meanwhile"


def _being_built(
    spec: DatasetSpec, folder: DatasetFolder, interval: Interval, context: Context
) -> str | None:
    task: Any = context["ti"]
    dag_id = context["dag_run"].dag_id
    if task.get_dr_count(dag_id=dag_id, states=_ACTIVE) <= 1:
        return None  # this run alone
    for some in _later(spec, interval):
        count = _active(context, some)
        # Markers of skips are looked for only if a run is active: a look is a call of CephFS.
        if count:
            count = _active(context, [each for each in some if not _is_skipped(folder, each)])
        if count:
            since = f"{some[0].start:%Y-%m-%d}"
            return f"runs of later intervals are active, {count} of those from {since}"
    return None


def _active(context: Context, intervals: Sequence[Interval]) -> int:
    """Return the number of active runs of these intervals."""
    task: Any = context["ti"]
    dates = [each.start for each in intervals]
    if not dates:
        return 0
    dag_id = context["dag_run"].dag_id
    return int(task.get_dr_count(dag_id=dag_id, logical_dates=dates, states=_ACTIVE))


def _is_skipped(folder: DatasetFolder, interval: Interval) -> bool:
    from trainfeed.versions.skip import read_skip

    if read_skip(folder, interval.name) is None:
        return False
    return folder.current_generation(interval.name) is None


def _later(spec: DatasetSpec, interval: Interval) -> Iterator[Sequence[Interval]]:
    """Yield later intervals, some at a time; a run has the start of its interval as its date."""
    later = spec.schedule_model().intervals(interval.end, datetime.now(UTC))
    while some := list(islice(later, _DATES)):
        yield some


# --- The trainings that a published version starts: its own, and those whose events were lost

# Largest number of trainings that one run starts besides its own; the next run starts more.
CATCH_UP_LIMIT: Final = 50
_SHOWN: Final = 10

_State = Literal["listens", "paused", "missing", "unknown", "declined"]
_DEAF: Final[dict[_State, str]] = {
    "paused": "is paused, so Airflow drops the event",
    "missing": "is not known to Airflow, which drops the event",
}


class Trainings:
    """The trainings of one data set, as a task that publishes sees them.

    Args:
        spec: The data set.
        env: Folders and connections.
        dag_id: The DAG that trains.
        context: Context of the task; parameters of its run select trainings (``training`` for the
            interval of the run, ``catch_up`` for others).
    """

    def __init__(self, spec: DatasetSpec, env: Environment, dag_id: str, context: Context) -> None:
        from trainfeed.versions import DatasetFolder, TrainingMarks

        self._spec = spec
        self._dag_id = dag_id
        self._wish = context["params"].get("catch_up") or "missed"
        self._task = context["ti"]
        self._sender = context["dag_run"].run_id
        self._folder = DatasetFolder(Path(env.root), spec.name)
        self._marks = TrainingMarks(self._folder)
        self._context = context

    def decline(self, interval: str, generation: str) -> JsonObject | None:
        """Write down that the run wants no training of its interval, if that is so.

        Call before the version is published, so that no other run starts its training. If this
        returns a report, call it again afterwards: a later interval may have been skipped
        meanwhile. After a second report do not call ``announce``: no event is sent, also for no
        other interval.

        Args:
            interval: Name of the interval that the run builds.
            generation: Generation of the version that the run publishes or has found.

        Returns:
            A report like that of ``announce``, with the reason as ``why``; None when the run wants
            the training.

        Raises:
            StorageError: The publication root refused or failed.
        """
        from trainfeed.training.launch import missed
        from trainfeed.versions import Untrained
        from trainfeed.versions.layout import parse_generation

        version = Untrained(interval, parse_generation(generation))
        why = why_declined(self._spec, self._folder, interval, self._context)
        if why is None:
            # An earlier run, or an earlier attempt of this task, may have declined it.
            self._marks.accept(version)
            return None
        self._marks.decline(version, why, self._sender)
        logger.info("no training of %s/%s starts: %s", interval, generation, why)
        untrained = len(missed(self._spec, self._marks, older=False))
        return {**_told(self._dag_id, "declined", untrained), "why": why}

    def announce(self, interval: str, generation: str) -> tuple[JsonObject, dict[str, str]]:
        """Decide which intervals get an event besides ``interval``, and record the events.

        Args:
            interval: The interval that the run published.
            generation: Name of its generation.

        Returns:
            The report: ``dag``, ``state`` (listens, paused, missing, unknown), ``untrained``
            (number of published intervals that no training has seen, the run's own included),
            ``caught_up`` (further intervals that get an event), ``left`` (number of those that get
            one later). And interval → generation of the further intervals with an event.

        Raises:
            StorageError: The publication root refused or failed.
        """
        from trainfeed.training.launch import missed
        from trainfeed.versions.layout import generation_name

        state = self._state()
        untrained = missed(self._spec, self._marks, older=self._wish == "all")
        own = [each for each in untrained if each.interval == interval]
        others = [each for each in untrained if each.interval != interval]
        chosen = self._chosen(state, others)
        self._mark(state, own, chosen)
        self._say(state, untrained, chosen, f"{interval}/{generation}")
        report = _told(self._dag_id, state, len(untrained), chosen, len(others) - len(chosen))
        return report, {each.interval: generation_name(each.generation) for each in chosen}

    def _mark(self, state: _State, own: list[Untrained], chosen: list[Untrained]) -> None:
        is_heard = state == "listens"
        if is_heard or self._context["params"].get("training") == "last":
            # With ``last``, runs of earlier intervals look for this mark, whether or not Airflow
            # drops the event.
            self._marks.announce([*own, *chosen], self._sender, is_heard=is_heard)

    def _state(self) -> _State:
        """Return whether Airflow would start a run of the DAG for an event."""
        try:
            return "paused" if self._task.get_dag(self._dag_id).is_paused else "listens"
        except AirflowRuntimeError as error:
            detail = error.error.detail or {}
            if detail.get("status_code") == HTTPStatus.NOT_FOUND:
                return "missing"
            logger.warning("Airflow does not say whether %s is paused: %s", self._dag_id, error)
            return "unknown"

    def _chosen(self, state: _State, others: list[Untrained]) -> list[Untrained]:
        # Airflow drops the events, or may drop them: leave them to a later run.
        if state != "listens" or self._wish == "none":
            return []
        return self._marks.lost(others, self._sender)[:CATCH_UP_LIMIT]

    def _say(
        self, state: _State, untrained: list[Untrained], chosen: list[Untrained], own: str
    ) -> None:
        if state in _DEAF:
            logger.warning(
                "%s %s: no training of %s starts; %d published intervals wait for one: %s; switch"
                " %s on: the next run of build.%s starts them, and so does this one run again",
                self._dag_id, _DEAF[state], own, len(untrained), _names(untrained),
                self._dag_id, self._spec.name,
            )  # fmt: skip
        elif chosen:
            logger.info(
                "%s starts for %d more intervals, which no training has seen: %s",
                self._dag_id, len(chosen), _names(chosen),
            )  # fmt: skip


def _told(
    dag_id: str, state: _State, untrained: int, chosen: Sequence[Untrained] = (), left: int = 0
) -> JsonObject:
    return {
        "dag": dag_id,
        "state": state,
        "untrained": untrained,
        "caught_up": [each.interval for each in chosen],
        "left": left,
    }


def _names(versions: list[Untrained]) -> str:
    names = [each.interval for each in versions]
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
