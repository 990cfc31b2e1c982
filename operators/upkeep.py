"""Regular upkeep of all data sets: retention, outdated versions, leftovers, shared storage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from operators.connections import environment_from_connections
from operators.corrections import specified_names
from operators.outcome import Done, FormOperator, airflow_outcome
from operators.runs import RunPerson, run_person, run_signature
from operators.stages import open_dataset
from trainfeed.errors import ConfigError, Outcome, TrainFeedError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.look.outdated import OutdatedReport
    from trainfeed.pipeline import JsonObject
    from trainfeed.pipeline.leftovers import Swept
    from trainfeed.training.kept_jobs import KeptJob, LeftObject
    from trainfeed.upkeep.retention import Removals


logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


def _in_turn(
    names: Iterable[str], what: str, work: Callable[[str], ResultT]
) -> tuple[dict[str, ResultT], dict[str, TrainFeedError]]:
    """Do the same for each data set; an error of one keeps no other from its turn."""
    done: dict[str, ResultT] = {}
    errors: dict[str, TrainFeedError] = {}
    for name in names:
        try:
            done[name] = work(name)
        except TrainFeedError as error:
            logger.error("%s was not %s: %s", name, what, error)  # noqa: TRY400
            errors[name] = error
    return done, errors


# --- One data set, or all → what retention no longer keeps is removed


class PruneDatasetsOperator(FormOperator):
    """Remove what ``retention`` in dataset.yaml does not keep and nothing uses.

    Superseded generations go only where dataset.yaml states ``keep_generations`` or ``keep_days``.
    A data set that cannot be pruned, or stays above its ``max_bytes``, fails the task after all
    others.

    Returns:
        Data set → number and ``bytes`` by kind, and the number of items that are kept in use.
    """

    form = ("dataset", "dry_run", "clock_is_right")

    def carry_out(self, context: Context) -> Done:
        """Prune all data sets, or one; in a dry run, only say what would be removed."""
        params = context["params"]
        accepted, dry_run = params.get("clock_is_right"), bool(params["dry_run"])
        person = run_signature(context) if accepted is None else run_person(context)
        names = [params["dataset"]] if params["dataset"] else specified_names()
        pruned, errors = _in_turn(
            names, "pruned", lambda name: _prune(name, person, accepted, dry_run=dry_run)
        )
        lines: list[str] = []
        for name in names:
            if name in errors:
                lines.append(f"{name} was not pruned: {errors[name]}")
            else:
                lines += _removal_lines(name, pruned[name], dry_run=dry_run)
        found = {name: _removal_counts(removals) for name, removals in pruned.items()}
        failed = [name for name in names if name in errors or pruned[name].excess]
        if failed:
            context["ti"].xcom_push(key="pruned", value=found)
        failure = _failure(failed, list(errors.values())) if failed else None
        return Done(params["dataset"] or "all data sets", lines, found, failure)


def _failure(failed: Sequence[str], errors: Sequence[TrainFeedError]) -> AirflowException:
    """Return the failure of data sets: a retry may help if it may help with each of them."""
    said = (
        f"{', '.join(failed)}: not pruned, or above max_bytes, the result has the reasons; the"
        " other data sets were pruned"
    )
    may_pass = all(error.outcome is Outcome.RETRY for error in errors)
    if may_pass and len(errors) == len(failed):
        return AirflowException(said)
    return AirflowFailException(said)


def _prune(name: str, person: RunPerson, accepted: str | None, *, dry_run: bool) -> Removals:
    from trainfeed.upkeep.retention import Context, prune, scheduled_kinds

    spec, env = open_dataset(name)
    context = Context.of(spec, env, who=person.who, account=person.account)
    kinds = scheduled_kinds(spec)
    return prune(context, kinds, dry_run=dry_run, clock_is_right=accepted)


def _removal_lines(name: str, removals: Removals, *, dry_run: bool) -> list[str]:
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


def _removal_counts(removals: Removals) -> JsonObject:
    """Return the counts alone, because an XCom is a row of a database."""
    kinds = {
        kind: {"number": number, "bytes": size}
        for kind, (number, size) in removals.by_kind().items()
    }
    return {"removed": kinds, "kept": len(removals.kept)}


# --- All data sets → their outdated versions, and what their sources say: a report, and no build

# Largest number of intervals of a data set whose findings are logged one by one.
_SHOWN = 50


class FindOutdatedOperator(FormOperator):
    """Report the outdated versions of all data sets; with ``against_source``, ask their sources.

    Outdated versions do not fail the task: after a change of code on purpose, every night would
    fail until somebody has decided. A data set that cannot be compared does, after all others.

    Returns:
        Data set → ``counts``, ``in_order``, ``causes``, ``cost`` and ``doubts`` of its report.
    """

    form = ("against_source",)

    def carry_out(self, context: Context) -> Done:
        """Compare all data sets, and say what differs."""
        against_source = bool(context["params"]["against_source"])
        names = specified_names()
        reports, errors = _in_turn(
            names, "compared", lambda name: _report_outdated(name, against_source=against_source)
        )
        lines: list[str] = []
        for name in names:
            if name in errors:
                lines.append(f"{name} was not compared: {errors[name]}")
            else:
                lines += _outdated_lines(reports[name])
        found = {name: _outdated_counts(report) for name, report in reports.items()}
        failure = None
        if errors:
            context["ti"].xcom_push(key="compared", value=found)
            failure = AirflowFailException(
                f"{', '.join(errors)} could not be compared, the result has the errors; the"
                f" other {len(found)} data sets were"
            )
        return Done("all data sets", lines, found, failure)


def _report_outdated(name: str, *, against_source: bool) -> OutdatedReport:
    from trainfeed.look.outdated import compare_with_source, find_outdated

    spec, env = open_dataset(name)
    report = find_outdated(spec, env)
    return compare_with_source(spec, env, report) if against_source else report


def _outdated_lines(report: OutdatedReport) -> list[str]:
    """Return the states of a data set's versions, the causes, and what its source says."""
    counts = ", ".join(f"{number} {state}" for state, number in report.counts.items())
    remarks = [each for each in report.intervals if each.source is not None and each.source.told]
    more = len(remarks) - _SHOWN
    return [
        f"{report.dataset}: {counts or 'no version'}",
        *(f"  {cause.text} ({cause.intervals}, first {cause.first})" for cause in report.causes),
        *(f"  {each.interval}: {each.why}" for each in remarks[:_SHOWN]),
        *([f"  … and {more} more intervals with a remark"] if more > 0 else []),
        *(f"  {doubt}" for doubt in report.doubts),
    ]


def _outdated_counts(report: OutdatedReport) -> JsonObject:
    """Return the report without its intervals, because an XCom is a row of a database."""
    found = report.to_json()
    return {key: value for key, value in found.items() if key not in {"dataset", "intervals"}}


# --- Removes what killed builds and launches left, and finds what homes on shared storage lost


class HousekeepingOperator(FormOperator):
    """Remove leftovers that were not modified for the given hours; versions and landed data stay.

    Code and services that abandoned launches left on clusters are removed as well.

    Returns:
        ``leftovers`` (their number) and ``bytes``; the log has the name of each.
    """

    form = ("older_than", "dry_run", "mount", "datacenter")

    def carry_out(self, context: Context) -> Done:
        """Sweep all data sets; in a dry run, only say what would be removed."""
        from trainfeed.pipeline.leftovers import sweep
        from trainfeed.training.kept_jobs import abandoned_launches, sweep_launches

        params = context["params"]
        age, dry_run = timedelta(hours=params["older_than"]), params["dry_run"]
        env = environment_from_connections(())
        jobs = abandoned_launches(Path(env.root), older_than=age)
        files = sweep(env, older_than=age, dry_run=dry_run)
        launches = sweep_launches(jobs, _clusters(jobs), dry_run=dry_run)
        removed: list[Swept | LeftObject] = [*files, *launches]
        size = sum(each.bytes for each in removed)
        verb = "would be removed" if dry_run else "removed"
        lines = [
            f"{len(removed)} leftovers {verb}, {size} bytes",
            *(
                f"{each.place}, {each.bytes} bytes, last touched {each.modified}"
                for each in removed
            ),
        ]
        return Done("leftovers", lines, {"leftovers": len(removed), "bytes": size})


class SharedStorageOperator(BaseOperator):
    """Compare quotas and namespaces of homes with what an administrator gave; change nothing.

    Ceph lets every key that reads a folder remove its namespace. The task fails if some attributes
    are gone: the log has each, and ``trainfeed pfs user add`` puts them back. Without a mount in
    the form, the task is skipped.
    """

    def execute(self, context: Context) -> None:
        """Look at all homes of a data centre."""
        from trainfeed.serving.pfs.users import require_attributes

        mount, datacenter = (context["params"].get(each) for each in ("mount", "datacenter"))
        if not mount and not datacenter:
            raise AirflowSkipException("no mount of shared storage is named in the form")
        with airflow_outcome(context):
            if not mount or not datacenter:
                raise ConfigError(
                    "expected the mount of the shared storage and the name of its data centre, got"
                    " one of them; nothing was looked at; give both, or none"
                )
            require_attributes(Path(mount), datacenter)


def _clusters(jobs: Iterable[KeptJob]) -> dict[str, Mapping[str, Any]]:
    """Return the settings of the jobs' clusters; a connection that is gone is left out."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in sorted({each.job.placement.connection for each in jobs if each.job.placement}):
        try:
            found |= environment_from_connections((), clusters=[name]).clusters
        except ConfigError as error:
            logger.warning("the launches on cluster %r are not swept: %s", name, error)
    return found
