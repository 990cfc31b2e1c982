"""Tables of the time of tasks and runs, from Airflow's REST API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import mean
from typing import Any

from rich.table import Table

from services.airflow_client import TaskInstance

__all__ = ["TaskTime", "phases", "show_cpu", "show_tasks"]

_STAGES = ("plan", "ingest", "preprocess", "convert", "check", "publish", "train")
_PHASES = ("waited", "scheduled", "queued", "process", "stage")


@dataclass(frozen=True)
class TaskTime:
    """Where the time of one task went, in seconds.

    Attributes:
        task: Its id.
        waited: From the end of the task before, or the start of the run, until it was scheduled.
        scheduled: Until it was queued.
        queued: Until its process told that it runs.
        process: Its process without the stage: start, imports, the DAG file, connections, XComs.
        stage: What the stage itself says that it took.
    """

    task: str
    waited: float
    scheduled: float
    queued: float
    process: float
    stage: float


def phases(
    started_at: datetime, tasks: Sequence[TaskInstance], seconds: Mapping[tuple[str, int], float]
) -> list[TaskTime]:
    """Split the time of a run's tasks, which follow each other in the order of the stages.

    Args:
        started_at: Of the run.
        tasks: The run's task instances; all have ended.
        seconds: What each stage reported, by task and index.
    """
    found, before = [], started_at
    for stage in _STAGES:
        of_stage = [task for task in tasks if task.task_id == stage]
        for task in of_stage:
            times = (task.scheduled_at, task.queued_at, task.started_at, task.ended_at)
            scheduled, queued, started, ended = (_known(moment, task) for moment in times)
            inside = seconds.get((stage, task.map_index), 0.0)
            found.append(
                TaskTime(
                    stage,
                    waited=(scheduled - before).total_seconds(),
                    scheduled=(queued - scheduled).total_seconds(),
                    queued=(started - queued).total_seconds(),
                    process=(ended - started).total_seconds() - inside,
                    stage=inside,
                )
            )
        if of_stage:
            before = max(_known(task.ended_at, task) for task in of_stage)
    return found


def show_tasks(times: Iterable[TaskTime]) -> Table:
    """Means by task, in milliseconds."""
    table = Table("task", "number", *(f"{name} ms" for name in (*_PHASES, "all")))
    by_task: dict[str, list[TaskTime]] = defaultdict(list)
    for time in times:
        by_task[time.task].append(time)
    every = [time for group in by_task.values() for time in group]
    for name, group in [*by_task.items(), ("all tasks", every)]:
        means = [mean(getattr(time, phase) for time in group) for phase in _PHASES]
        cells = (f"{1000 * each:.0f}" for each in (*means, sum(means)))
        table.add_row(name, str(len(group)), *cells)
    return table


def show_cpu(spent: Mapping[str, float], wall_s: float, num_tasks: int) -> Table:
    """CPU by part, with its share of the cores."""
    table = Table("part", "CPU s", "cores", "CPU ms per task")
    for name, cpu_s in [*spent.items(), ("all", sum(spent.values()))]:
        per_task = 1000 * cpu_s / num_tasks
        table.add_row(name, f"{cpu_s:.1f}", f"{cpu_s / wall_s:.2f}", f"{per_task:.0f}")
    return table


def _known(moment: Any, task: TaskInstance) -> datetime:
    if not isinstance(moment, datetime):
        raise TypeError(f"task {task.task_id}[{task.map_index}] is {task.state}: a time is missing")
    return moment
