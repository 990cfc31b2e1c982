"""The trainings that a published version starts: its own, and those whose events were lost.

Airflow drops the events of an asset while the DAG that consumes them is paused, and does not send
them again when that DAG is switched on. So every run that publishes a version, or finds it
identical, looks for published intervals that no training has seen, and sends their events again.
Several events for one interval do no harm: its job is found by its name, and runs once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from airflow.sdk.exceptions import AirflowRuntimeError

from operators.trainings.training_wish import why_declined

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.config import Environment
    from trainfeed.dataset import Untrained
    from trainfeed.pipeline import JsonObject
    from trainfeed.specification import DatasetSpec

__all__ = ["CATCH_UP_LIMIT", "Trainings"]

logger = logging.getLogger(__name__)

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
        from trainfeed.dataset import DatasetFolder, TrainingMarks

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
        from trainfeed.dataset import Untrained
        from trainfeed.dataset.layout import parse_generation
        from trainfeed.training.launch import missed

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
        from trainfeed.dataset.layout import generation_name
        from trainfeed.training.launch import missed

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
