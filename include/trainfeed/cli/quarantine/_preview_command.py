"""``trainfeed quarantine preview``: what the function of today makes of quarantined records."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._printing import (
    error_console,
    print_json,
    print_message,
    print_rows,
    printable_lines,
    program,
)
from trainfeed.cli.quarantine._chosen_reason import require_reason
from trainfeed.cli.quarantine._quarantine_targets import PlanId, Target, Wanted, as_last_builds
from trainfeed.cli.quarantine._reason_list import Json
from trainfeed.pipeline.review import QuarantinePreview, preview_quarantine
from trainfeed.specification import load_spec

__all__ = ["preview_records"]

_LIMIT: Final = 10_000
_COLUMNS: Final = ("interval", "reason", "records", "valid", "filtered", "still quarantined")


def preview_records(
    target: Target,
    *,
    plan: PlanId = None,
    reason: Annotated[str | None, typer.Option(help="Only records with this reason.")] = None,
    limit: Annotated[
        int, typer.Option("-n", min=1, help="At most this many records of each interval.")
    ] = _LIMIT,
    as_json: Json = False,
) -> None:
    """Run today's function on quarantined records alone, and say what would become of them.

    Code, specification, lookups and limits are those of a build now. Of each interval of a range
    the last build is previewed, published or not. Nothing is written but a line of the audit.
    """
    wanted = Wanted.parse(target, plan)
    spec = load_spec(wanted.env.datasets / wanted.folder.name)
    # A preview also shows the output of the function.
    logging.getLogger("trainfeed.printed").setLevel(logging.INFO)
    builds = list(as_last_builds(wanted))
    if reason is not None:
        reasons = [found.reasons() for found in builds]
        require_reason(reason, {name for each in reasons for name in each}, target)
        builds = [found for found, each in zip(builds, reasons, strict=True) if reason in each]
    reports = []
    for found in builds:
        with error_console().status(f"{spec.name}/{found.interval}"):
            reports.append(preview_quarantine(spec, wanted.env, found, reason=reason, limit=limit))
    if as_json:
        told = [report.to_json() for report in reports]
        print_json(told[0] if wanted.is_one else told)
    else:
        _print(target, reports)


def _print(target: str, reports: list[QuarantinePreview]) -> None:
    print_rows(_COLUMNS, [row for report in reports for row in _rows(report)])
    for report in reports:
        _print_examples(report)
        for note in report.notes:
            print_message(f"{report.interval}: {note}")
    typer.echo(printable_lines(_summary(reports)))
    if any(report.valid for report in reports):
        print_message(f"make the next generations: {program()} quarantine replay {target}")


def _rows(report: QuarantinePreview) -> Iterator[tuple[object, ...]]:
    for each in report.outcomes:
        yield (
            report.interval,
            each.reason,
            each.records,
            each.valid,
            each.filtered,
            each.quarantined,
        )


def _print_examples(report: QuarantinePreview) -> None:
    rows: list[tuple[object, ...]] = []
    for each in report.outcomes:
        rows += [(*_place(sample), "valid", sample["sample"]) for sample in each.samples]
        rows += [
            (*_place(error), f"quarantined: {error['reason']}", error["message"])
            for error in each.errors
        ]
    if rows:
        typer.echo(printable_lines(f"\n{report.dataset}/{report.interval}: first records"))
        print_rows(("source", "offset", "would be", "sample or message"), rows)


def _place(example: dict[str, Any]) -> tuple[object, object]:
    return example["source"], example["offset"]


def _summary(reports: list[QuarantinePreview]) -> str:
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    records = sum(outcome.records for outcome in outcomes)
    quarantined = sum(report.quarantined for report in reports)
    valid = sum(outcome.valid for outcome in outcomes)
    filtered = sum(outcome.filtered for outcome in outcomes)
    return (
        f"{records} of {quarantined} quarantined records of {len(reports)} builds previewed:"
        f" {valid} would be valid, {filtered} filtered, {records - valid - filtered} still"
        " quarantined; nothing was published"
    )
