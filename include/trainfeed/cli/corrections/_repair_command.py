"""``trainfeed repair``: damaged files of a published version become what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._decision_options import Who, named_person
from trainfeed.cli._printing import error_console, print_json, print_message, printable_lines
from trainfeed.cli.corrections._one_generation import Target, one_generation
from trainfeed.config import environment_from_environ
from trainfeed.repair import RepairReport, RepairWish
from trainfeed.repair import repair as repair_version
from trainfeed.specification import check_name, load_spec

__all__ = ["repair"]

_DAMAGED: Final = 3


def repair(
    target: Target,
    *,
    why: Annotated[
        str | None,
        typer.Option(
            help="The reason, which the history keeps; by default which files were damaged."
        ),
    ] = None,
    who: Who = None,
    backup: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A folder with a copy of the version, such as that of a snapshot: files with the"
            " published digests are taken from there.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the damage, and how it would be repaired.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Repair the damaged files of a version, if they can be had with the published digests.

    They are copied from where they are intact, or made again by the stages of the version's plan.
    A file is replaced only by one with the size and SHA-256 of the manifest; what nobody
    published is moved to _trash. Status 3: damage is left, or was found in a dry run. For record
    files without a manifest, see trainfeed file repair.
    """
    name, interval, generation = one_generation(target)
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    wish = RepairWish(why=why, who=named_person(who), dry_run=dry_run, backup=backup)
    with error_console().status(f"{target}: files are compared, and made again"):
        report = repair_version(spec, env, interval, generation, wish)
    print_json(report.to_json()) if as_json else _print(report)
    if not report.is_whole:
        raise typer.Exit(_DAMAGED)


def _print(report: RepairReport) -> None:
    if not report.files:
        typer.echo(f"{report.version} is intact")
        return
    for each in report.files:
        found = each.finding
        typer.echo(printable_lines(f"{found.name}: {found.kind}: {found.what}"))
        typer.echo(printable_lines(f"  {each.outcome}: {each.how}"))
    if report.dry_run:
        print_message("nothing was changed, this was a dry run")
        return
    effort = report.effort
    if effort.shards or effort.records:
        print_message(
            f"computed again: {effort.records} records, {effort.source_reads} of them read from"
            f" the source, and {effort.shards} shards, in {effort.seconds:.1f} s"
        )
    if report.is_whole:
        typer.echo(f"{report.version} is intact again")
        return
    print_message(f"{report.version} is still damaged; these ways are left:")
    for offer in report.offers:
        print_message(f"  {offer}")
