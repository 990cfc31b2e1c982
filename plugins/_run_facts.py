"""Facts about a run from the database of Airflow: states of its tasks, and their reports.

Reports are XComs of tasks, so the publication root need not be mounted on the API server. Every
query is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

BUILD: Final = "build."
TRAIN: Final = "train."
UPLOADS: Final = "uploads."
WAIVE: Final = "waive."
# DAGs with a form each, which tell what came of it.
FORMS: Final = frozenset(
    {
        "convert", "housekeeping", "models", "outdated", "repair", "retention", "retire", "tag",
        "withdraw",
    }
)  # fmt: skip

_MOST_TRAININGS: Final = 20
_MOST_FAILURES: Final = 5
# Tasks in the order of a run; other tasks of a DAG come after them.
_STAGES: Final = (
    "waive", "wait_for_logs", "plan", "ingest", "preprocess", "convert", "spark", "check", "ask",
    "publish", "train", "evaluate", "approve", "promote",
)  # fmt: skip
_FAILED: Final = frozenset({"failed", "up_for_retry"})
_Report = Mapping[str, Any]


@dataclass(frozen=True)
class Stage:
    """A task of a run; a mapped one has several instances.

    Attributes:
        task_id: The task.
        states: State → number of instances; instances without a state count as ``waiting``.
    """

    task_id: str
    states: Mapping[str, int]

    @property
    def state(self) -> str:
        """The most important state among all instances."""
        for state in ("failed", "up_for_retry", "running", "deferred", "up_for_reschedule"):
            if state in self.states:
                return state
        return next(iter(self.states)) if len(self.states) == 1 else "running"


@dataclass(frozen=True)
class Failure:
    """A failed task; ``report`` is its XCom ``failure``, empty for a killed one."""

    task_id: str
    map_index: int
    state: str
    report: _Report


@dataclass(frozen=True)
class Training:
    """A training run that an interval started, and the reports of its job and model, if any."""

    dag_id: str
    run_id: str
    state: str
    job: _Report
    model: _Report = field(default_factory=dict)


@dataclass(frozen=True)
class RunFacts:
    """All facts about a run that its page shows.

    Attributes:
        dag_id: The DAG.
        run_id: The run.
        state: State of the run; empty if there is no such run.
        note: Note of the run: its interval, unless a person has written something else.
        stages: Tasks of the run, in order.
        failures: Failed tasks.
        plan: Report of the plan, or of a dry run.
        check: Report of ``check``.
        publish: Report of ``publish``.
        version: Report of the version for pages.
        job: Report of the training job, in a run that trains.
        model: Report of the model, and of its gate.
        promotion: Report of the promotion.
        uploads: Report of the check, in a run that takes uploads.
        spark: Report of the Spark application, in a run with the engine spark.
        spark_progress: How far that application was when its task said so last.
        results: What the tasks of a form say of their result.
    """

    dag_id: str
    run_id: str
    state: str = ""
    note: str = ""
    stages: tuple[Stage, ...] = ()
    failures: tuple[Failure, ...] = ()
    plan: _Report = field(default_factory=dict)
    check: _Report = field(default_factory=dict)
    publish: _Report = field(default_factory=dict)
    version: _Report = field(default_factory=dict)
    job: _Report = field(default_factory=dict)
    model: _Report = field(default_factory=dict)
    promotion: _Report = field(default_factory=dict)
    uploads: _Report = field(default_factory=dict)
    spark: _Report = field(default_factory=dict)
    spark_progress: _Report = field(default_factory=dict)
    results: tuple[_Report, ...] = ()

    @property
    def is_build(self) -> bool:
        """Whether the run builds an interval."""
        return self.dag_id.startswith(BUILD)

    @property
    def is_form(self) -> bool:
        """Whether the run is of a form: it corrects, names, removes or converts something."""
        return not self.dag_id.startswith((BUILD, TRAIN, UPLOADS))


def is_known(dag_id: str) -> bool:
    """Return whether a DAG is one of trainfeed, by its id."""
    return dag_id in FORMS or dag_id.startswith((BUILD, TRAIN, UPLOADS, WAIVE))


def run_facts(session: Session, dag_id: str, run_id: str) -> RunFacts:
    """Return the facts about a run of a DAG of trainfeed."""
    run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))

    def report(task_id: str, key: str = "return_value") -> _Report:
        return xcom(session, dag_id, run_id, task_id, key=key)

    common: dict[str, Any] = {
        "dag_id": dag_id,
        "run_id": run_id,
        "state": str(run.state or "") if run else "",
        "note": str(run.note or "") if run else "",
        "stages": stages(session, dag_id, run_id),
        "failures": failures(session, dag_id, run_id),
    }
    if dag_id.startswith(TRAIN):
        return RunFacts(
            **common, job=report("train"), model=report("evaluate"), promotion=report("promote")
        )
    if dag_id.startswith(UPLOADS):
        return RunFacts(**common, uploads=report("check", "uploads"))
    if not dag_id.startswith(BUILD):
        results = (report(stage.task_id, "told") for stage in common["stages"])
        return RunFacts(**common, results=tuple(filter(None, results)))
    return RunFacts(
        **common,
        plan=report("plan", "plan"),
        check=report("check"),
        publish=report("publish"),
        version=report("publish", "version_report"),
        spark=report("spark"),
        spark_progress=report("spark", "progress"),
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
    """Return the XCom of a task under a key; empty if there is none, or it is no mapping."""
    query = XComModel.get_many(
        run_id=run_id, key=key, task_ids=task_id, dag_ids=dag_id, map_indexes=map_index
    )
    row = session.scalars(query.limit(1)).first()
    report = None if row is None else XComModel.deserialize_value(row)
    return report if isinstance(report, Mapping) else {}


def stages(session: Session, dag_id: str, run_id: str) -> tuple[Stage, ...]:
    """Return the tasks of a run in order, with the states of their instances."""
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
    """Return the first tasks that have failed, or wait for another attempt after a failure."""
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


def is_paused(session: Session, dag_id: str) -> bool:
    """Return whether a DAG is there and paused now."""
    dag = session.get(DagModel, dag_id)
    return dag is not None and bool(dag.is_paused)


def trainings(session: Session, dag_id: str, interval: str) -> tuple[Training, ...]:
    """Return the training runs that an interval started, newest first."""
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
