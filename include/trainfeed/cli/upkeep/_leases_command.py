"""``trainfeed leases``: who reads or builds versions of data sets now, and until when."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._known_datasets import complete_target, known_folder, readable_environment
from trainfeed.cli._printing import print_json, print_message, print_rows
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.lease import FoundLease, leases
from trainfeed.dataset.root import data_sets_of

__all__ = ["show_leases"]

_COLUMNS: Final = ("data set", "state", "versions", "what", "account", "host", "process", "until")


def show_leases(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The data set; by default all data sets.", autocompletion=complete_target
        ),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show who reads or builds versions now, which retention therefore keeps, and until when.

    A lease that its process renews no more is listed as ended, until upkeep removes it. Status 3
    when a lease cannot be read; until its time has passed it keeps every version.
    """
    now = datetime.now(UTC)
    root = Path(readable_environment().root)
    names = data_sets_of(root) if name is None else [known_folder(name).name]
    found = [(each, lease) for each in names for lease in leases(DatasetFolder(root, each))]
    if as_json:
        print_json(
            [
                {"dataset": each, "state": _state(lease, now), **lease.to_json()}
                for each, lease in found
            ]
        )
    elif found:
        print_rows(_COLUMNS, [_row(each, lease, now) for each, lease in found])
    else:
        print_message("no lease was found")
    unread = [lease for _, lease in found if lease.lease is None]
    for lease in unread:
        print_message(lease.problem)
    if unread:
        raise typer.Exit(3)


def _state(found: FoundLease, now: datetime) -> str:
    if not found.is_held(now):
        return "ended"
    if found.is_ahead(now):
        return "clock ahead"
    return str(found.lease.kind) if found.lease else "unread"


def _row(name: str, found: FoundLease, now: datetime) -> list[object]:
    state, until = _state(found, now), f"{found.until:%Y-%m-%dT%H:%M:%SZ}"
    if (lease := found.lease) is None:
        return [name, state, "all", found.path.name, "", "", "", until]
    return [
        name, state, _versions(lease.versions), lease.what, lease.account, lease.host, lease.pid,
        until,
    ]  # fmt: skip


def _versions(versions: tuple[tuple[str, int], ...]) -> str:
    ends = (versions[0], versions[-1])
    first, last = (f"{name}/{generation_name(number)}" for name, number in ends)
    return first if len(versions) == 1 else f"{first} … {last} ({len(versions)})"
