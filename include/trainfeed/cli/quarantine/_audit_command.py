"""``trainfeed quarantine audit``: who read quarantined bytes."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from typing import Annotated

import typer

from trainfeed.cli._known_datasets import complete_target, known_folder
from trainfeed.cli._printing import print_json, print_message, print_rows
from trainfeed.cli.quarantine._reason_list import Json
from trainfeed.pipeline.quarantine_access import Access, DamagedLine, accesses

__all__ = ["list_accesses"]


def list_accesses(
    name: Annotated[str, typer.Argument(help="The data set.", autocompletion=complete_target)],
    *,
    limit: Annotated[int, typer.Option("-n", min=1, help="At most this many, the last ones.")] = 50,
    as_json: Json = False,
) -> None:
    """List who read quarantined bytes of a data set, and when; the last reading first.

    Status 3 when a line of the file is damaged; the others are listed all the same.
    """
    folder = known_folder(name)
    last: deque[Access] = deque(maxlen=limit)
    damaged: list[int] = []
    number = 0
    for each in accesses(folder):
        if isinstance(each, DamagedLine):
            damaged.append(each.number)
        else:
            number += 1
            last.append(each)
    rows = [asdict(each) for each in reversed(last)]
    if as_json:
        print_json({"dataset": name, "accesses": number, "shown": rows, "damaged_lines": damaged})
    else:
        _print(rows)
        if len(rows) < number:
            print_message(f"{len(rows)} of {number} are shown; -n {number} shows all")
    if damaged:
        first = ", ".join(map(str, damaged[:10]))
        print_message(
            f"{folder.quarantine_audit}: {len(damaged)} lines are damaged, the first are {first}: a"
            " kill or a full disk cut them, or the file was changed"
        )
        raise typer.Exit(3)


def _print(rows: list[dict[str, object]]) -> None:
    columns = ("at", "account", "host", "command", "interval", "origin", "reason", "records")
    print_rows(columns, [[row[column] for column in columns] for row in rows])
