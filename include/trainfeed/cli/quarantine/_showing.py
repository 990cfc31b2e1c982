"""``trainfeed quarantine show``: positions, times, reasons and bytes; each reading is audited."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import print_json, print_message, print_rows, printable_lines
from trainfeed.cli.quarantine._chosen_reason import require_reason
from trainfeed.cli.quarantine._quarantine_targets import PlanId, Target, Wanted, as_one
from trainfeed.cli.quarantine._reason_list import Json, origin_of, title_of
from trainfeed.cli.quarantine._record_text import record_json, record_row
from trainfeed.config import Environment
from trainfeed.errors import ConfigError, ConflictError, NotFoundError, TrainFeedError
from trainfeed.pipeline.quarantine import Quarantine, QuarantinedRecord
from trainfeed.pipeline.quarantine_access import read_raw, read_raw_at
from trainfeed.pipeline.review import InspectedRecord, inspect_records
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.storage import posix

__all__ = ["show_records"]

_PRIVATE: Final = 0o600
_STDOUT: Final = "-"


def show_records(  # noqa: PLR0913 - options of a command
    target: Target,
    *,
    plan: PlanId = None,
    reason: Annotated[str | None, typer.Option(help="Only records with this reason.")] = None,
    limit: Annotated[int, typer.Option("-n", min=1, help="At most this many records.")] = 10,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="SOURCE:OFFSET", help="Only the record there: kafka:clicks/0:17."
        ),
    ] = None,
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw",
            metavar="FILE",
            help="Write the exact bytes of the one record of --at to a new file of mode 0600, or -"
            " for a pipe.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show quarantined records of an interval: position, time, reason and content.

    Values that the quarantine has cut come whole from landing, or from the log files, while these
    are there. Every call adds a line to the audit of the data set, before a byte is shown.
    """
    wanted = Wanted.parse(target, plan)
    found = as_one(wanted)
    reasons = found.reasons()
    require_reason(reason, reasons, f"{found.dataset}/{found.interval} ({found.origin})")
    if raw is not None:
        _require_one(at, raw, as_json=as_json)
    root = Path(wanted.env.root)
    if at is not None:
        records = [_record_at(root, found, at, reason, is_raw=raw is not None)]
    else:
        records = list(read_raw(root, found, "show", reason=reason, limit=limit))
    inspected = inspect_records(wanted.env, _spec(wanted.env, found), found, records)
    if raw is not None:
        _write(inspected[0], raw)
    elif as_json:
        shown = [record_json(each) for each in inspected]
        total = sum(reasons.values())
        print_json({**origin_of(found), "records": total, "reasons": reasons, "shown": shown})
    else:
        matching = sum(reasons.values()) if reason is None else reasons[reason]
        _print(found, reasons, inspected, 1 if at is not None else matching)


def _print(
    found: Quarantine, reasons: dict[str, int], inspected: Sequence[InspectedRecord], matching: int
) -> None:
    typer.echo(printable_lines(title_of(found, reasons)))
    columns = ("source", "offset", "time", "reason", "message", "record")
    print_rows(columns, [record_row(each) for each in inspected])
    if len(inspected) < matching:
        print_message(f"{len(inspected)} of {matching} are shown; -n {matching} shows all")
    for why in dict.fromkeys(each.why_not for each in inspected if each.why_not):
        print_message(f"as the quarantine keeps them, without time: {why}")


def _record_at(
    root: Path, found: Quarantine, at: str, reason: str | None, *, is_raw: bool
) -> QuarantinedRecord:
    source, _, offset = at.rpartition(":")
    if not source or not offset.isdecimal():
        raise ConfigError(f"expected --at SOURCE:OFFSET such as kafka:clicks/0:17, got {at!r}")
    wanted = source, int(offset)
    places = (each for each in found.places(reason) if (each.source, each.offset) == wanted)
    if (place := next(places, None)) is None:
        raise NotFoundError(
            f"expected a quarantined record of {found.dataset}/{found.interval} ({found.origin}) at"
            f" {source} offset {offset}, got none; trainfeed quarantine show"
            f" {found.dataset}/{found.interval} lists them"
        )
    command = "show --raw" if is_raw else "show --at"
    return read_raw_at(root, found, command, place)


def _require_one(at: str | None, raw: str, *, as_json: bool) -> None:
    if at is None or as_json:
        raise ConfigError("expected --at SOURCE:OFFSET beside --raw, and no --json: one record")
    if raw == _STDOUT and sys.stdout.isatty():
        raise ConfigError("expected a pipe for --raw -, a terminal may obey raw bytes; name a file")


def _write(each: InspectedRecord, raw: str) -> None:
    if not each.is_whole:
        raise NotFoundError(
            f"only the first {len(each.record.raw)} bytes are kept, the rest is gone:"
            f" {each.why_not}; nothing was written; --json shows what is kept"
        )
    data = each.value or b""
    if raw == _STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif posix.create_exclusive(raw, data, mode=_PRIVATE):
        print_message(f"{len(data)} bytes in {raw}")
    else:
        raise ConflictError(f"{raw}: the name is taken; nothing was written; name a new file")


def _spec(env: Environment, found: Quarantine) -> DatasetSpec | None:
    """Return the specification, which only log files that do not land need; None without one."""
    try:
        return load_spec(env.datasets / found.dataset)
    except TrainFeedError:
        return None
