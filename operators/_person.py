"""The person behind a run: the Airflow user who started it, in whose name a task decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from operators._run_request import run_identity
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["RunPerson", "answering_user", "run_account", "run_person", "run_signature"]


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
    return RunPerson(str(who), run_account(context), run_identity(context))


def answering_user(answer: object) -> str:
    """Return the user in the answer to a question, or in its event."""
    user = cast("Mapping[str, Any]", answer).get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "an unknown user")


def run_account(context: Context) -> str:
    """Return the name of the run, which stands where a command has its account."""
    run = context["dag_run"]
    return f"Airflow run {run.dag_id}/{run.run_id}"


def run_signature(context: Context) -> RunPerson:
    """Return who acts: the schedule of the DAG, or the user who started the run.

    Raises:
        ConfigError: Neither: a run that was triggered without a user.
    """
    run = context["dag_run"]
    if str(run.run_type.value) == "scheduled":
        who = f"schedule of the DAG {run.dag_id}"
        return RunPerson(who, run_account(context), run_identity(context))
    return run_person(context)
