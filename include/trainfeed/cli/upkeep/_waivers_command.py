"""``trainfeed waivers``: the waivers of data sets, and what became of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.accounts import person
from trainfeed.cli._known_datasets import complete_target, known_folder, readable_environment
from trainfeed.cli._printing import print_json, print_message, print_rows
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import AccessDeniedError
from trainfeed.pipeline.waivers import UnreadWaiver, WaiverState, waiver_states
from trainfeed.specification import gate_name, shown_number

__all__ = ["app"]

app = typer.Typer(
    help="Show who let failed gates pass, why, and until when.",
    epilog="Example: trainfeed waivers ls flights",
    no_args_is_help=True,
)

_COLUMNS: Final = ("interval", "plan", "state", "gates", "who", "why", "until")


@app.callback()
def _group() -> None:
    """Keep ``ls`` a command of its own: typer merges a single command into its group."""


@app.command("ls", epilog="Example: trainfeed waivers ls flights/2013-01-01")
def list_waivers(
    target: Annotated[
        str | None,
        typer.Argument(
            help="NAME or NAME/INTERVAL; by default all data sets.", autocompletion=complete_target
        ),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List waivers: used by a version, unused, holding, or over.

    Status 3 when a waiver is damaged, 1 when waivers are closed to this account; the others are
    listed all the same.
    """
    now = datetime.now(UTC)
    name, _, interval = (target or "").partition("/")
    root = Path(readable_environment().root)
    names = data_sets_of(root) if target is None else [known_folder(name).name]
    found: list[WaiverState | UnreadWaiver] = []
    closed: list[AccessDeniedError] = []
    for each in names:
        try:
            found += waiver_states(DatasetFolder(root, each), now, interval or None)
        except AccessDeniedError as error:
            closed.append(error)
    unread = [state for state in found if isinstance(state, UnreadWaiver)]
    if as_json:
        print_json([state.to_json() for state in found])
    elif rows := [_row(state) for state in found if isinstance(state, WaiverState)]:
        print_rows(_COLUMNS, rows)
    elif not (unread or closed):
        print_message("no waiver was found")
    for problem in [*closed, *(each.error for each in unread)]:
        print_message(str(problem))
    if unread or closed:
        raise typer.Exit(3 if any(each.is_damaged for each in unread) else 1)


def _row(state: WaiverState) -> list[object]:
    waiver = state.waiver
    in_version = f" by {state.generation}" if state.state == "used" else ""
    gates = [f"{gate_name(gate)} {shown_number(gate['value'])}" for gate in waiver.gates]
    return [
        f"{state.dataset}/{state.interval}",
        waiver.plan,
        f"{state.state}{in_version}",
        ", ".join(gates),
        person(waiver.who, waiver.account),
        waiver.why,
        waiver.until,
    ]
