"""The group of the commands, in the order of their use."""

from __future__ import annotations

import typer

from trainfeed.cli.quarantine._audit_command import list_accesses
from trainfeed.cli.quarantine._preview_command import preview_records
from trainfeed.cli.quarantine._reason_list import list_reasons
from trainfeed.cli.quarantine._replay_command import replay
from trainfeed.cli.quarantine._showing import show_records

__all__ = ["app"]

app = typer.Typer(
    help="Records that functions rejected, in versions and in builds that failed.",
    epilog="Example: trainfeed quarantine ls flights/2013-01",
    no_args_is_help=True,
)
for _name, _command, _example in (
    ("ls", list_reasons, "trainfeed quarantine ls flights/2013-01"),
    ("show", show_records, "trainfeed quarantine show flights/2013-01-01 -n 20"),
    ("preview", preview_records, "trainfeed quarantine preview flights/2013-01"),
    ("replay", replay, "trainfeed quarantine replay flights/2013-01 --jobs 4"),
    ("audit", list_accesses, "trainfeed quarantine audit flights"),
):
    app.command(_name, epilog=f"Example: {_example}")(_command)
