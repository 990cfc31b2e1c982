"""``trainfeed waive``: a person lets failed gates of one build pass, as they were measured."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from trainfeed.accounts import account_name, person
from trainfeed.cli._decision_options import Who, named_person
from trainfeed.cli._printing import print_json, print_message, print_rows, printable_lines, program
from trainfeed.config import environment_from_environ
from trainfeed.dataset import DatasetFolder, require_root
from trainfeed.errors import ConfigError
from trainfeed.intervals import parse_time
from trainfeed.pipeline.waivers import Waivable, WaiverWish, next_command, waivable
from trainfeed.pipeline.waivers import waive as write_waiver

__all__ = ["waive"]


def waive(  # noqa: PLR0913 - options of a command
    target: Annotated[str, typer.Argument(help="NAME/INTERVAL.")],
    *,
    why: Annotated[str | None, typer.Option(help="The reason, which the manifest keeps.")] = None,
    until: Annotated[
        str | None,
        typer.Option(help="UTC, such as 2026-12-31: later, the build does not pass any more."),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(help="The plan; by default that of the last attempt. Messages name it."),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option(help="Only this check; repeat for several.")
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Only gates of this field; repeat for several.")
    ] = None,
    who: Who = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the gates that failed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let failed gates of an unpublished build pass, with the values that they have now.

    The waiver is a file beside the plan, and stands in the manifest. Building again then runs
    check and publish; nothing is computed twice.
    """
    env = environment_from_environ()
    require_root(env.root, env.root_setting)
    name, _, interval = target.partition("/")
    if not interval or "/" in interval:
        raise ConfigError(f"expected NAME/INTERVAL, got {target!r}")
    found = waivable(DatasetFolder(Path(env.root), name), interval, plan)
    if not as_json:
        _show(target, found)
    if dry_run:
        _print(found, {}, as_json=as_json)
        return
    if why is None or until is None:
        raise ConfigError("expected --why and --until, or --dry-run; nothing was written")
    until_time = parse_time(until)
    wish = WaiverWish(named_person(who), account_name(), why, until_time, check or (), field or ())
    waiver = write_waiver(env, found, wish, datetime.now(UTC))
    _print(found, {"waiver": waiver.to_json()}, as_json=as_json)


def _show(target: str, found: Waivable) -> None:
    plan = found.plan.plan_id
    typer.echo(printable_lines(f"{target} (plan {plan}) is not published; gates that failed:"))
    print_rows((), [[line] for line in found.refused.lines])


def _print(found: Waivable, written: dict[str, Any], *, as_json: bool) -> None:
    command = next_command(found.plan).replace("trainfeed", program(), 1)
    if as_json:
        gates = [dict(gate) for gate in found.refused.gates]
        print_json({"plan": found.plan.plan_id, "failed": gates, **written, "next": command})
    elif written:
        waiver = written["waiver"]
        decided = f"{person(waiver['who'], waiver['account'])} until {waiver['until']}"
        typer.echo(
            printable_lines(
                f"{len(waiver['gates'])} of {len(found.refused.gates)} waived by {decided}:"
                f" {waiver['why']}"
            )
        )
        print_message(f"publish it: {command} (in Airflow: clear the task check of the run)")
