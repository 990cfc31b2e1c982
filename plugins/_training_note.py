"""The note in the tab *Data set* about trainings that cannot start.

Airflow silently drops the events for a paused DAG; the tab is where a person looks for the reason.
"""

from __future__ import annotations

from html import escape

from airflow.models.dag import DagModel
from sqlalchemy.orm import Session

__all__ = ["training_note"]


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
