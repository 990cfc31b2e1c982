"""Checks of runs with the REST API of Airflow: a page alone proves nothing."""

from __future__ import annotations

from typing import Any, Final

from services.airflow_client import AirflowClient, DagRun

__all__ = ["Evidence", "require"]

_AFTER_PLAN: Final = frozenset({"ingest", "preprocess", "convert", "check", "publish"})


class Evidence:
    """Asks the API for the result of a run, and fails when it differs from the page.

    Args:
        client: Client of the Airflow.
    """

    def __init__(self, client: AirflowClient) -> None:
        self._client = client

    def only_planned(self, run: DagRun, day: str) -> None:
        """A dry run found what to build, and no other task did anything."""
        require(run.state == "success", f"expected the dry run to succeed, got {run.state}")
        plan = self._client.xcom(run, "plan", key="plan")
        require(plan["dry_run"] and plan["interval"] == day, f"expected a dry run, got {plan}")
        states = self._states(run)
        done = {task: states[task] for task in _AFTER_PLAN if states[task] != {"skipped"}}
        require(not done, f"expected all tasks after plan to be skipped, got {done}")

    def triggered_by_the_form(self, run: DagRun, day: str) -> None:
        """The form filled in a logical date, and the run is for the day that was chosen."""
        require(run.logical_date is not None, f"{run.run_id} has no logical date")
        require(run.conf.get("window_start") == day, f"expected {day}, got {dict(run.conf)}")
        require(run.note == day, f"expected the note {day!r}, got {run.note!r}")

    def published(
        self, run: DagRun, day: str, verdict: str = "built", generation: str = "g0001"
    ) -> dict[str, Any]:
        """The run published a generation of a day, or found it; returns what it said."""
        require(run.state == "success", f"expected {run.run_id} to succeed, got {run.state}")
        report: dict[str, Any] = self._client.xcom(run, "publish")
        got = (report["interval"], report["generation"], report["verdict"])
        expected = (day, generation, verdict)
        require(got == expected, f"expected {expected}, got {got}")
        require(report["samples"] > 0, f"expected samples in {day}, got {report}")
        require(run.note == day, f"expected the note {day!r}, got {run.note!r}")
        return report

    def refused(self, run: DagRun) -> None:
        """The gates failed the task ``check``, which left the reason, and nothing is published."""
        require(run.state == "failed", f"expected {run.run_id} to fail, got {run.state}")
        told = self._client.xcom(run, "check", key="failure")
        require(told["error"] == "GateError", f"expected a GateError, got {told}")
        broken = [gate["check"] for gate in told["report"]["gates"] if not gate["passed"]]
        require(broken == ["quarantine_ratio"], f"expected quarantine_ratio, got {broken}")
        publish = self._states(run)["publish"]
        require(publish == {"upstream_failed"}, f"expected no publication, got {publish}")

    def trained(self, dag_id: str, day: str) -> bool:
        """Whether the newest training of a day has ended.

        Raises:
            AssertionError: The training failed, or was of another day.
        """
        runs = [run for run in self._client.dag_runs(dag_id) if run.partition_key == day]
        if not runs or not runs[-1].ended:
            return False
        run = runs[-1]
        require(run.state == "success", f"the training {run.run_id} of {day} failed")
        job = self._client.xcom(run, "train")
        require(job["intervals"][-1] == day, f"expected a job of {day}, got {job}")
        return True

    def said(self, run: DagRun, task: str) -> dict[str, Any]:
        """Return what a task gave back."""
        report: dict[str, Any] = self._client.xcom(run, task)
        return report

    def _states(self, run: DagRun) -> dict[str, set[str | None]]:
        found: dict[str, set[str | None]] = {}
        for task in self._client.task_instances(run.dag_id, run.run_id):
            found.setdefault(task.task_id, set()).add(task.state)
        return found


def require(holds: bool, otherwise: str) -> None:
    """Raise an AssertionError that says what was expected, unless it holds."""
    if not holds:
        raise AssertionError(otherwise)
