"""What a run says about itself: its interval, its identity, its parameters, and its person."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from trainfeed.core.intervals import Interval, WindowRequest, format_time, resolve_interval
from trainfeed.errors import ConfigError
from trainfeed.specification import did_you_mean

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.specification import DatasetSpec


# --- The interval and the identity of a run, from its context, and the check of its parameters

logger = logging.getLogger(__name__)


def run_interval(spec: DatasetSpec, request: WindowRequest) -> Interval:
    """Return the interval of a run, and log it with the deciding fact.

    Raises:
        WindowError: The request gives no interval of the schedule.
    """
    interval = resolve_interval(spec.schedule_model(), request)
    logger.info("interval %s of %s, by %s", interval.name, spec.name, request.origin)
    return interval


def window_request(context: Context) -> WindowRequest:
    """Return the request of a run, from a task's context.

    Not every run has every key. Runs without a logical date (of partitioned DAGs, or triggered
    without one) have no ``data_interval_*``. A run of a partitioned DAG that was triggered with a
    logical date has an empty interval, which is ignored here. ``partition_key`` is None outside of
    partitioned DAGs, and the parameter is None unless it was set.
    """
    run_type = str(context["dag_run"].run_type.value)
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    has_interval = start != end
    return WindowRequest(
        window_start=context["params"].get("window_start"),
        partition_key=context.get("partition_key"),
        data_interval_start=start if has_interval else None,
        data_interval_end=end if has_interval else None,
        is_backfill=run_type == "backfill",
        is_scheduled=run_type == "scheduled",
    )


def run_identity(context: Context) -> str:
    """Return what names a run for ever, also after a deletion and another run with its id.

    Run ids are unique in one DAG only, and a person may give a run any id. Clearing a run does not
    change the time after which it may run.
    """
    run = context["dag_run"]
    return f"{run.dag_id}/{run.run_id} of {format_time(run.run_after)}"


def require_known(given: Iterable[str], *known: str) -> None:
    """Refuse parameters that the form does not have: a misspelt ``dry_run`` would build.

    Args:
        given: Names of the parameters of the run.
        *known: Names of the parameters of the form.

    Raises:
        ConfigError: A parameter is unknown; the message has its name and the nearest known one.
    """
    for name in given:
        if name not in known:
            raise ConfigError(
                f"expected the parameters of the form, got {name!r}; nothing was read or written;"
                f" {did_you_mean(name, known)}"
            )


# --- The person behind a run: the Airflow user who started it, in whose name a task decides


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
