"""Form of the DAG ``repair`` → damaged files of a version become what they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from operators._outcome import airflow_outcome
from operators._person import run_person
from operators._run_request import require_known
from operators._stage import open_dataset
from operators._told_result import tell_result

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.repair import RepairReport

__all__ = ["RepairVersionOperator"]


class RepairVersionOperator(BaseOperator):
    """Repair a version, or in a dry run show its damage; what cannot be repaired fails the task.

    Returns:
        ``version``, ``is_whole``, ``recomputed``, and ``num_files``: the number of findings; the
        log has each of them.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Repair the version; a task that is cleared finds what is still damaged."""
        from trainfeed.dataset.layout import parse_generation
        from trainfeed.repair import RepairWish, repair

        params = context["params"]
        with airflow_outcome(context):
            require_known(
                params, "dataset", "interval", "generation", "why", "copy_from", "dry_run"
            )
            spec, env = open_dataset(params["dataset"])
            named, backup = params["generation"], params["copy_from"]
            person = run_person(context)
            wish = RepairWish(
                why=params["why"] or None,
                who=person.who,
                account=person.account,
                dry_run=params["dry_run"],
                backup=Path(backup) if backup else None,
            )
            generation = parse_generation(named) if named else None
            report = repair(spec, env, params["interval"], generation, wish)
            tell_result(context, report.version, _lines(report))
            if not (report.is_whole or report.dry_run):
                raise AirflowFailException(
                    f"{report.version} is still damaged; the result says why, and what can be done"
                )
        return _small(report)


def _lines(report: RepairReport) -> list[str]:
    """Return the result, then what was found in each file and what came of it."""
    return [_result(report), *_found(report), *report.offers]


def _result(report: RepairReport) -> str:
    if not report.files:
        return f"{report.version} is intact"
    if report.dry_run:
        return f"{report.version} is damaged: {len(report.files)} files; nothing was changed"
    return f"{report.version} is {'intact again' if report.is_whole else 'still damaged'}"


def _found(report: RepairReport) -> Iterator[str]:
    for each in report.files:
        found = each.finding
        yield f"{found.name} ({found.kind}, {found.what}): {each.outcome}: {each.how}"


def _small(report: RepairReport) -> dict[str, Any]:
    """Return the report without its files, because an XCom is a row of a database."""
    told = report.to_json()
    return {
        "num_files": len(report.files),
        **{name: told[name] for name in ("version", "dry_run", "is_whole", "recomputed")},
    }
