"""The person behind a run: the Airflow user who started it, in whose name a task decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from operators._run_request import run_identity
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["RunPerson", "run_person", "run_signature"]


class RunPerson(NamedTuple):
    """Who decides.

    Attributes:
        who: The Airflow user.
        account: The run that acts for the user.
        request: Names the run for ever.
    """

    who: str
    account: str
    request: str


def run_person(context: Context) -> RunPerson:
    """Return the user who started the run.

    Raises:
        ConfigError: No user did: a decision needs a person, and a run id can be any text.
    """
    run = context["dag_run"]
    who = getattr(run, "triggering_user_name", None)
    if not who:
        raise ConfigError(
            "expected a run that a user of Airflow started, got one without a user; nothing was"
            f" changed; trigger the DAG {run.dag_id} in the interface or by REST"
        )
    return RunPerson(str(who), f"Airflow run {run.dag_id}/{run.run_id}", run_identity(context))


def run_signature(context: Context) -> str:
    """Return who acts: the schedule of the DAG, or the user who started the run.

    Raises:
        ConfigError: Neither: a run that was triggered without a user.
    """
    run = context["dag_run"]
    if str(run.run_type.value) == "scheduled":
        return f"schedule of the DAG {run.dag_id}"
    return run_person(context).who
