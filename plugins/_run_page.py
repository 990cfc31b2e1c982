"""Behind the tab *Data set* of a run: the version that it published, the jobs that trained on it.

Airflow does not authenticate the apps of plugins. Whoever calls any route here must be logged in,
and may see of a run what may be seen of its XComs, which is all that the page shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_dag,
    requires_authenticated,
)
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from plugins._training_note import training_note

__all__ = ["app"]

_BUILD, _TRAIN = "build.", "train."
_MOST_TRAININGS: Final = 20
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_HEAD: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Data set</title><style>"
    ":root{color-scheme:light dark;font:14px sans-serif}th{text-align:left;font-weight:normal;"
    "padding-right:2em;vertical-align:top}td{font-family:monospace;white-space:pre-wrap}"
    "</style>"
)

app = FastAPI(
    dependencies=[Depends(requires_authenticated())],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


@app.get(
    "/dags/{dag_id}/runs/{run_id}",
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.XCOM))],
)
def show_run(
    dag_id: str, run_id: str, request: Request, user: GetUserDep, session: SessionDep
) -> HTMLResponse:
    """What a run of ``build.…`` published and what trained on it; the job of one of ``train.…``."""
    found: list[str] = []
    if dag_id.startswith(_BUILD) and (version := _report(session, dag_id, run_id, "publish")):
        found.append(_section("Version", version))
        training = _TRAIN + dag_id.removeprefix(_BUILD)
        if _may_read(training, request, user):
            found.append(training_note(session, training))
            found += _trainings(session, training, str(version.get("interval")))
    elif dag_id.startswith(_TRAIN) and (job := _report(session, dag_id, run_id, "train")):
        found.append(_section("Training job", job))
    nothing = "<p>This run has published no version and trained no model, or not yet.</p>"
    return HTMLResponse(_HEAD + ("".join(found) or nothing), headers=_HEADERS)


def _report(session: Session, dag_id: str, run_id: str, task_id: str) -> Mapping[str, Any] | None:
    query = XComModel.get_many(
        run_id=run_id, key="return_value", task_ids=task_id, dag_ids=dag_id, map_indexes=-1
    )
    row = session.scalars(query.limit(1)).first()
    report = None if row is None else XComModel.deserialize_value(row)
    # Databases keep the names in an order of their own.
    return dict(sorted(report.items())) if isinstance(report, Mapping) else None


def _may_read(dag_id: str, request: Request, user: Any) -> bool:
    try:
        requires_access_dag("GET", DagAccessEntity.XCOM, dag_id)(request, user)
    except HTTPException:
        return False
    return True


def _trainings(session: Session, dag_id: str, interval: str) -> Iterator[str]:
    """One section for each run that the interval started, the newest first."""
    query = (
        select(DagRun.run_id, DagRun.state)
        .where(DagRun.dag_id == dag_id, DagRun.partition_key == interval)
        .order_by(DagRun.id.desc())
        .limit(_MOST_TRAININGS)
    )
    for run_id, state in session.execute(query):
        job = _report(session, dag_id, run_id, "train") or {}
        yield _section("Training job", {"run": run_id, "state": state, **job})
        yield f'<p><a href="{_address(dag_id, run_id)}">Page of this run</a></p>'


def _address(dag_id: str, run_id: str) -> str:
    """The page of another run, from the page of a run."""
    return f"../../{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def _section(title: str, report: Mapping[str, Any]) -> str:
    return f"<h2>{title}</h2><table>{''.join(_rows(report.items()))}</table>"


def _rows(pairs: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, value in pairs:
        text = value if isinstance(value, str) else json.dumps(value, indent=1, default=str)
        yield f"<tr><th>{escape(str(name))}<td>{escape(text)}"
