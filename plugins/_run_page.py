"""The app behind the tab *Data set* of a run: its result or failure, and its trainings.

Airflow does not authenticate the apps of plugins. Every route here requires a login, and permission
to read the run's tasks and XComs: the page shows nothing else.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_dag,
    requires_authenticated,
)
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from plugins import _run_facts
from plugins._run_view import page

# --- The note in the tab *Data set* about trainings that cannot start


def training_note(session: Session, dag_id: str) -> str:
    """Return a paragraph of HTML if a training DAG is paused now, else an empty text.

    Args:
        session: Session of Airflow's database.
        dag_id: The DAG that trains; a data set may have none.
    """
    dag = session.get(DagModel, dag_id)
    if dag is None or not dag.is_paused:
        return ""
    return (
        f"<p><strong>{escape(dag_id)} is paused:</strong> no training starts, Airflow drops the"
        " events. Switch it on: the next build starts the trainings of all published intervals that"
        " none has seen, and so does one that finds its version identical."
    )


# --- The app behind the tab *Data set* of a run: its result or failure, and its trainings

_SEEN: Final = (DagAccessEntity.XCOM, DagAccessEntity.TASK_INSTANCE)
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

app = FastAPI(
    dependencies=[Depends(requires_authenticated())],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


@app.get(
    "/dags/{dag_id}/runs/{run_id}",
    dependencies=[Depends(requires_access_dag("GET", entity)) for entity in _SEEN],
)
def show_run(
    dag_id: str, run_id: str, request: Request, user: GetUserDep, session: SessionDep
) -> HTMLResponse:
    """Return the page of a run: of a build with its trainings, of a form with its result."""
    found: tuple[_run_facts.Training, ...] = ()
    note = ""
    facts = _run_facts.RunFacts(dag_id, run_id)
    if _run_facts.is_known(dag_id):
        facts = _run_facts.run_facts(session, dag_id, run_id)
    training = _run_facts.TRAIN + dag_id.removeprefix(_run_facts.BUILD)
    interval = facts.publish.get("interval")
    if facts.is_build and interval and _may_read(training, request, user):
        found = _run_facts.trainings(session, training, str(interval))
        note = training_note(session, training)
    return HTMLResponse(page(facts, found, note), headers=_HEADERS)


def _may_read(dag_id: str, request: Request, user: Any) -> bool:
    try:
        for entity in _SEEN:
            requires_access_dag("GET", entity, dag_id)(request, user)
    except HTTPException:
        return False
    return True
