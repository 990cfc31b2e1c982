"""One data set, or all → what retention no longer keeps is removed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from operators._outcome import airflow_outcome
from operators._person import RunPerson, run_person, run_signature
from operators._run_request import require_known
from operators._stage import open_dataset
from operators._told_result import tell_result
from operators.corrections._known_folder import specified_names
from trainfeed.errors import Outcome, TrainFeedError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject
    from trainfeed.retention import Removals

__all__ = ["PruneDatasetsOperator"]

logger = logging.getLogger(__name__)


class PruneDatasetsOperator(BaseOperator):
    """Remove what ``retention`` in dataset.yaml does not keep and nothing uses.

    Superseded generations go only where dataset.yaml states ``keep_generations`` or ``keep_days``.
    A data set that cannot be pruned, or stays above its ``max_bytes``, fails the task after all
    others.

    Returns:
        Data set → number and ``bytes`` by kind, and the number of items that are kept in use.
    """

    def execute(self, context: Context) -> JsonObject:
        """Prune all data sets, or one; in a dry run, only log what would be removed."""
        params = context["params"]
        found: JsonObject = {}
        failed: list[str] = []
        errors: list[TrainFeedError] = []
        told: list[str] = []
        with airflow_outcome(context):
            require_known(params, "dataset", "dry_run", "clock_is_right")
            accepted = params.get("clock_is_right")
            person = run_signature(context) if accepted is None else run_person(context)
            for name in [params["dataset"]] if params["dataset"] else specified_names():
                try:
                    removals = _prune(name, person, accepted, dry_run=bool(params["dry_run"]))
                except TrainFeedError as error:
                    logger.error("%s was not pruned: %s", name, error)  # noqa: TRY400
                    told.append(f"{name} was not pruned: {error}")
                    failed.append(name)
                    errors.append(error)
                    continue
                told += _lines(name, removals, dry_run=bool(params["dry_run"]))
                found[name] = _small(removals)
                failed += [name] if removals.excess else []
            tell_result(context, params["dataset"] or "all data sets", told)
            if failed:
                context["ti"].xcom_push(key="pruned", value=found)
                _fail(failed, errors)
        return found


def _fail(failed: Sequence[str], errors: Sequence[TrainFeedError]) -> NoReturn:
    """Raise for data sets that failed: a retry may help if it may help with each of them."""
    told = (
        f"{', '.join(failed)}: not pruned, or above max_bytes, the result has the reasons; the"
        " other data sets were pruned"
    )
    may_pass = all(error.outcome is Outcome.RETRY for error in errors)
    if may_pass and len(errors) == len(failed):
        raise AirflowException(told)
    raise AirflowFailException(told)


def _prune(name: str, person: RunPerson, accepted: str | None, *, dry_run: bool) -> Removals:
    from trainfeed.retention import Context, prune, scheduled_kinds

    spec, env = open_dataset(name)
    context = Context.of(spec, env, who=person.who, account=person.account)
    kinds = scheduled_kinds(spec)
    return prune(context, kinds, dry_run=dry_run, clock_is_right=accepted)


def _lines(name: str, removals: Removals, *, dry_run: bool) -> list[str]:
    """Return how much goes, then each item with its reason."""
    verb = "would remove" if dry_run else "removed"
    number = len(removals.expired)
    return [
        f"{name}: {verb} {number} items, {removals.num_bytes} bytes; {len(removals.kept)} stay",
        *(f"{name}: {excess.told}" for excess in removals.excess),
        *(
            f"{name}: {verb} {each.item.name}, {each.item.num_bytes} bytes: {each.why}"
            for each in removals.expired
        ),
        *(f"{name}: {kept.item.name} stays: {kept.why}" for kept in removals.kept),
    ]


def _small(removals: Removals) -> JsonObject:
    """Return the counts alone, because an XCom is a row of a database."""
    kinds = {
        kind: {"number": number, "bytes": size}
        for kind, (number, size) in removals.by_kind().items()
    }
    return {"removed": kinds, "kept": len(removals.kept)}
