"""The time that runs of a backfill stand still, and the state in which they end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from services.airflow_client import AirflowClient, AirflowRequestError, DagRun

__all__ = ["Watch"]

_Key = tuple[str, str]
# A task that waits on purpose, for instance for the versions of a training window.
_WAITS = frozenset({"up_for_reschedule", "deferred"})
_IDLE = frozenset({None, "success", "skipped"})


@dataclass
class Watch:
    """Looks at all runs of some DAGs again and again.

    Attributes:
        client: Of the Airflow; looks that it does not answer count as time without a change.
        dag_ids: The DAGs.
        runs: All runs as they were last seen, by DAG and run.
        still_s: The longest time that each run went on without any change of its tasks, in
            seconds; times in which all that it does is to wait on purpose are left out.
    """

    client: AirflowClient
    dag_ids: tuple[str, ...]
    runs: dict[_Key, DagRun] = field(default_factory=dict)
    still_s: dict[_Key, float] = field(default_factory=dict)
    _seen: dict[_Key, tuple[object, float]] = field(default_factory=dict)

    def look(self) -> bool:
        """Look once; says whether the API server answered."""
        try:
            for dag_id in self.dag_ids:
                for run in self.client.dag_runs(dag_id):
                    self._note(run)
        except AirflowRequestError:
            return False
        return True

    def ended(self, dag_id: str) -> list[DagRun]:
        """The runs of a DAG that have ended."""
        return [run for (dag, _), run in self.runs.items() if dag == dag_id and run.ended]

    def states(self, dag_id: str) -> Mapping[str, int]:
        """How many runs of a DAG are in which state."""
        states = [run.state for (dag, _), run in self.runs.items() if dag == dag_id]
        return {state: states.count(state) for state in sorted(set(states))}

    def _note(self, run: DagRun) -> None:
        key, now_s = (run.dag_id, run.run_id), time.monotonic()
        known = self.runs.get(key)
        if known is not None and known.ended:
            return
        print_, waits = self._fingerprint(run)
        self.runs[key] = run
        before, since_s = self._seen.get(key, (print_, now_s))
        if known is None or waits:
            since_s = now_s
        # Also where the change came between two looks that are far apart.
        self.still_s[key] = max(self.still_s.get(key, 0.0), now_s - since_s)
        self._seen[key] = print_, since_s if before == print_ else now_s

    def _fingerprint(self, run: DagRun) -> tuple[object, bool]:
        """What a change of shows progress; and whether the run is right to stand still."""
        if run.state != "running":
            return run.state, True
        tasks = self.client.task_instances(run.dag_id, run.run_id)
        states = sorted((t.task_id, t.map_index, str(t.state), t.try_number) for t in tasks)
        active = {task.state for task in tasks} - _IDLE
        return (run.state, *states), bool(active) and active <= _WAITS
