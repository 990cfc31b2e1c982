"""What the database of Airflow knows of a run: states of its tasks, and the reports they left.

Reports are the XComs of tasks; the publication root need not be mounted where the pages are made.
Every query is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

__all__ = [
    "BUILD",
    "TRAIN",
    "Failure",
    "RunFacts",
    "Stage",
    "Training",
    "run_facts",
    "trainings",
]

BUILD: Final = "build."
TRAIN: Final = "train."

_MOST_TRAININGS: Final = 20
_MOST_FAILURES: Final = 5
# In this order a run goes through them; whatever else a DAG has comes behind.
_STAGES: Final = (
    "wait_for_logs", "plan", "ingest", "preprocess", "convert", "check", "publish", "train",
    "evaluate", "approve", "promote",
)  # fmt: skip
_FAILED: Final = frozenset({"failed", "up_for_retry"})
_Report = Mapping[str, Any]


@dataclass(frozen=True)
class Stage:
    """A task of a run; a mapped one has several instances.

    Attributes:
        task_id: The task.
        states: Instances by state; those that have none yet count as ``waiting``.
    """

    task_id: str
    states: Mapping[str, int]

    @property
    def state(self) -> str:
        """The state that says most about all instances."""
        for state in ("failed", "up_for_retry", "running", "deferred", "up_for_reschedule"):
            if state in self.states:
                return state
        return next(iter(self.states)) if len(self.states) == 1 else "running"


@dataclass(frozen=True)
class Failure:
    """A task that failed: ``told`` is what it left, empty for one that was killed."""

    task_id: str
    map_index: int
    state: str
    told: _Report


@dataclass(frozen=True)
class Training:
    """A run that an interval started, and the reports of its job and model; empty without one."""

    dag_id: str
    run_id: str
    state: str
    job: _Report
    model: _Report = field(default_factory=dict)


@dataclass(frozen=True)
class RunFacts:
    """Everything that a page shows of a run.

    Attributes:
        dag_id: The DAG.
        run_id: The run.
        state: Of the run; empty when there is no such run.
        stages: Its tasks in order.
        failures: Tasks that failed.
        plan: What was planned, or found by a dry run.
        check: Report of the checks.
        publish: Report of the publication.
        version: What a page shows of the version.
        job: Report of the training job, of a run that trains.
        model: What the job was made, and its gate.
        promotion: Where the alias prod leads since.
    """

    dag_id: str
    run_id: str
    state: str = ""
    stages: tuple[Stage, ...] = ()
    failures: tuple[Failure, ...] = ()
    plan: _Report = field(default_factory=dict)
    check: _Report = field(default_factory=dict)
    publish: _Report = field(default_factory=dict)
    version: _Report = field(default_factory=dict)
    job: _Report = field(default_factory=dict)
    model: _Report = field(default_factory=dict)
    promotion: _Report = field(default_factory=dict)

    @property
    def is_build(self) -> bool:
        """Whether the run builds an interval, rather than trains on one."""
        return self.dag_id.startswith(BUILD)


def run_facts(session: Session, dag_id: str, run_id: str) -> RunFacts:
    """Collect what is known of a run of ``build.…`` or ``train.…``."""
    state = session.scalar(
        select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    )

    def report(task_id: str, key: str = "return_value") -> _Report:
        return xcom(session, dag_id, run_id, task_id, key=key)

    common: dict[str, Any] = {
        "dag_id": dag_id,
        "run_id": run_id,
        "state": str(state or ""),
        "stages": stages(session, dag_id, run_id),
        "failures": failures(session, dag_id, run_id),
    }
    if dag_id.startswith(TRAIN):
        return RunFacts(
            **common, job=report("train"), model=report("evaluate"), promotion=report("promote")
        )
    return RunFacts(
        **common,
        plan=report("plan", "plan"),
        check=report("check"),
        publish=report("publish"),
        version=report("publish", "version_report"),
    )


def xcom(
    session: Session,
    dag_id: str,
    run_id: str,
    task_id: str,
    *,
    key: str = "return_value",
    map_index: int = -1,
) -> _Report:
    """Return what a task left under a key; nothing when it left nothing, or no mapping."""
    query = XComModel.get_many(
        run_id=run_id, key=key, task_ids=task_id, dag_ids=dag_id, map_indexes=map_index
    )
    row = session.scalars(query.limit(1)).first()
    report = None if row is None else XComModel.deserialize_value(row)
    return report if isinstance(report, Mapping) else {}


def stages(session: Session, dag_id: str, run_id: str) -> tuple[Stage, ...]:
    """Return the tasks of a run with the states of their instances, in order of the run."""
    query = (
        select(TaskInstance.task_id, TaskInstance.state, func.count())
        .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
        .group_by(TaskInstance.task_id, TaskInstance.state)
    )
    found: dict[str, dict[str, int]] = {}
    for task_id, state, count in session.execute(query):
        found.setdefault(task_id, {})[str(state or "waiting")] = count
    return tuple(Stage(name, found[name]) for name in _in_order(found))


def _in_order(task_ids: Iterable[str]) -> list[str]:
    places = {name: place for place, name in enumerate(_STAGES)}
    return sorted(task_ids, key=lambda name: (places.get(name, len(_STAGES)), name))


def failures(session: Session, dag_id: str, run_id: str) -> tuple[Failure, ...]:
    """Return the first tasks that failed, or wait for another try after one that failed."""
    query = (
        select(TaskInstance.task_id, TaskInstance.map_index, TaskInstance.state)
        .where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.state.in_(_FAILED),
        )
        .order_by(TaskInstance.start_date, TaskInstance.map_index)
        .limit(_MOST_FAILURES)
    )
    return tuple(
        Failure(
            task_id,
            index,
            str(state),
            xcom(session, dag_id, run_id, task_id, key="failure", map_index=index),
        )
        for task_id, index, state in session.execute(query).all()
    )


def trainings(session: Session, dag_id: str, interval: str) -> tuple[Training, ...]:
    """Return the runs that an interval started, the newest first."""
    query = (
        select(DagRun.run_id, DagRun.state)
        .where(DagRun.dag_id == dag_id, DagRun.partition_key == interval)
        .order_by(DagRun.id.desc())
        .limit(_MOST_TRAININGS)
    )
    return tuple(
        Training(
            dag_id,
            run_id,
            str(state),
            xcom(session, dag_id, run_id, "train"),
            xcom(session, dag_id, run_id, "evaluate"),
        )
        for run_id, state in session.execute(query).all()
    )
