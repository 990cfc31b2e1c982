"""``trainfeed uploads``: checks labelled files, and lists them with the state of intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import typer

from trainfeed.cli.arguments import known_folder
from trainfeed.cli.command_groups import command
from trainfeed.cli.printing import Message, Part, Result, Table, program, with_json
from trainfeed.cli.targets import SetName, Target
from trainfeed.core.config import environment_from_environ
from trainfeed.specification import check_name, load_spec
from trainfeed.uploads import (
    IntervalUploads,
    Receipt,
    ReceiptBook,
    Refusal,
    check_uploads,
    interval_uploads,
)
from trainfeed.versions import DatasetFolder, require_writable_root
from trainfeed.versions.layout import generation_name

app = typer.Typer(
    help="Check and list uploaded files of labels.",
    epilog="Example: trainfeed uploads check clicks",
    no_args_is_help=True,
)

_COLUMNS: Final = ("receipt", "upload", "rows", "labels", "sha256", "state")
_DIGEST_CHARS: Final = 12


@command(app, "check", "uploads check clicks")
@with_json
def check(name: SetName) -> Result:
    """Check the uploads of a data set that have no receipt yet.

    Every file is read once. Status 3 when one is refused; nothing of it is used.
    """
    name = Target.parse(name).of_whole_set()
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    require_writable_root(env)
    folder = DatasetFolder(Path(env.root), spec.name)
    report = check_uploads(spec, folder)
    # A retired interval is told of where it got an upload just now: nothing else waits for it.
    waiting = [
        each
        for each in interval_uploads(folder)
        if each.waiting and (each.interval in report.intervals or not each.is_retired)
        if not each.damage
    ]
    return Result(
        {
            "dataset": report.dataset,
            "accepted": [asdict(receipt) for receipt in report.accepted],
            "refused": [asdict(refusal) for refusal in report.refused],
            "unfinished": list(report.unfinished),
            "damaged": list(report.damaged),
            "waiting": [each.interval for each in waiting],
        },
        [
            *map(_receipt_line, report.accepted),
            *(f"{each} is being written: check again later" for each in report.unfinished),
            f"{len(report.accepted)} accepted, {len(report.refused)} refused",
            *_advice(name, waiting),
        ],
        [*map(_refusal_line, report.refused), *report.damaged],
        Result.DAMAGED if report.refused or report.damaged else 0,
    )


@command(app, "ls", "uploads ls clicks")
@with_json
def list_uploads(name: SetName) -> Result:
    """List the accepted and refused uploads of a data set.

    And whether versions have them.
    Status 3 when a receipt is damaged or gone; the others are listed all the same.
    """
    name = Target.parse(name).of_whole_set()
    folder = known_folder(name)
    found, refused = interval_uploads(folder), ReceiptBook(folder).refusals()
    accepted = [row for each in found for row in _accepted(each)]
    accepted.sort(key=itemgetter("receipt", "upload"))
    waiting = [each for each in found if each.waiting and not (each.is_retired or each.damage)]
    text: list[Part] = [
        Table(_COLUMNS, [_shortened(each) for each in accepted]),
        *(Message(_refusal_line(each)) for each in refused),
        *_advice(name, waiting),
    ]
    damaged = [f"{each.interval}: {each.damage}" for each in found if each.damage]
    return Result(
        {"accepted": accepted, "refused": [asdict(refusal) for refusal in refused]},
        text,
        damaged,
        Result.DAMAGED if damaged else 0,
    )


def _accepted(found: IntervalUploads) -> Iterator[dict[str, Any]]:
    """Yield the columns of the accepted uploads of an interval."""
    waiting = {receipt.number for receipt in found.waiting}
    for receipt in found.receipts:
        yield {
            "receipt": receipt.number,
            "upload": receipt.name,
            "rows": receipt.rows,
            "labels": receipt.keys,
            "sha256": receipt.sha256,
            "state": _state(found, receipt.number, is_waiting=receipt.number in waiting),
        }


def _state(found: IntervalUploads, number: int, *, is_waiting: bool) -> str:
    if not is_waiting:
        return "in" if found.generation is None else f"in {generation_name(found.generation)}"
    is_removed = found.is_retired and number in found.removed
    return "retired, removed" if is_removed else found.state


def _shortened(accepted: dict[str, Any]) -> list[Any]:
    """Return the cells of an accepted upload in a table."""
    return list({**accepted, "sha256": accepted["sha256"][:_DIGEST_CHARS]}.values())


def _receipt_line(receipt: Receipt) -> str:
    labels = f"rows {receipt.rows}, labels {receipt.keys}"
    return f"receipt {receipt.number}: {receipt.name}, {labels}, {receipt.sha256[:_DIGEST_CHARS]}"


def _refusal_line(refusal: Refusal) -> str:
    return f"{refusal.name} is refused: {refusal.reason}"


def _advice(name: str, waiting: Sequence[IntervalUploads]) -> Iterator[str]:
    """Yield the commands that build the intervals with uploads that no version has."""
    for each in waiting:
        rebuild = "" if each.state == "not built" else " --rebuild WHY"
        command = f"{program()} build {name} --interval {each.interval}{rebuild}"
        yield f"{each.interval}: {each.state}; {command}"
