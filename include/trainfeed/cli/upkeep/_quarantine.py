"""``trainfeed quarantine``: the records that a build turned down, with their reasons.

The records are those of a published version, or of the work files of a failed build.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._look_target import readable_environment
from trainfeed.cli._printing import print_json, print_message, print_rows, printable_lines, program
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import parse_generation
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.quarantine import (
    Quarantine,
    QuarantinedRecord,
    quarantine_of_plan,
    quarantine_of_version,
    unpublished_plans,
)
from trainfeed.specification import did_you_mean

__all__ = ["app"]

app = typer.Typer(
    help="Show records that functions rejected, in versions and in builds that failed.",
    epilog="Example: trainfeed quarantine ls flights/2013-01-01",
    no_args_is_help=True,
)

Target = Annotated[
    str,
    typer.Argument(
        help="NAME/INTERVAL: the last build, published or not; NAME/INTERVAL/gNNNN: one version."
    ),
]
PlanId = Annotated[
    str | None,
    typer.Option("--plan", help="Read the work files of this plan; error messages name it."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_SHOWN_CHARS: Final = 500


@app.command("ls", epilog="Example: trainfeed quarantine ls flights/2013-01-01")
def list_reasons(target: Target, *, plan: PlanId = None, as_json: Json = False) -> None:
    """Count the quarantined records of an interval by reason, each with its first record."""
    found = _find(target, plan)
    reasons = found.reasons()
    first = _first_of_each(found, set(reasons))
    if as_json:
        rows = [
            {"reason": reason, "records": count, "first": _as_json(first[reason])}
            for reason, count in reasons.items()
        ]
        print_json({**_origin(found), "records": sum(reasons.values()), "reasons": rows})
        return
    typer.echo(printable_lines(_title(found, reasons)))
    columns = ("reason", "records", "first at", "message")
    print_rows(columns, [_reason_row(name, n, first[name]) for name, n in reasons.items()])
    if reasons:
        print_message(
            f"their bytes: {program()} quarantine show {target} --reason {next(iter(reasons))}"
        )


@app.command("show", epilog="Example: trainfeed quarantine show flights/2013-01-01 -n 20")
def show_records(
    target: Target,
    *,
    plan: PlanId = None,
    reason: Annotated[str | None, typer.Option(help="Only records with this reason.")] = None,
    limit: Annotated[int, typer.Option("-n", min=1, help="At most this many records.")] = 10,
    as_json: Json = False,
) -> None:
    """Show quarantined records of an interval: position, reason and content."""
    found = _find(target, plan)
    reasons = found.reasons()
    if reason is not None and reason not in reasons:
        raise NotFoundError(_no_such_reason(found, reason, reasons))
    records = list(islice(found.records(reason), limit))
    if as_json:
        shown = [_as_json(record) for record in records]
        total = sum(reasons.values())
        print_json({**_origin(found), "records": total, "reasons": reasons, "shown": shown})
        return
    typer.echo(printable_lines(_title(found, reasons)))
    columns = ("source", "offset", "reason", "message", "record")
    print_rows(columns, [_record_row(record) for record in records])
    matching = sum(reasons.values()) if reason is None else reasons[reason]
    if len(records) < matching:
        print_message(f"{len(records)} of {matching} are shown; -n {matching} shows all")


def _find(target: str, plan: str | None) -> Quarantine:
    name, *rest = target.split("/")
    if len(rest) not in {1, 2} or (plan is not None and len(rest) == 2):
        expected = "NAME/INTERVAL with --plan" if plan else "NAME/INTERVAL or NAME/INTERVAL/gNNNN"
        raise ConfigError(f"expected {expected}, got {target!r}")
    env = readable_environment()
    if plan is not None:
        return quarantine_of_plan(env, PlanRef(name, rest[0], plan))
    folder = DatasetFolder(Path(env.root), name)
    if len(rest) == 2:
        path = folder.version(rest[0], parse_generation(rest[1]))
        return quarantine_of_version(Version.open(path))
    return _newest(env, folder, rest[0])


def _newest(env: Environment, folder: DatasetFolder, interval: str) -> Quarantine:
    """Return the last written quarantine: of the newest version or of an unpublished build."""
    found = unpublished_plans(env, folder.name, interval)
    generation = folder.readable_generation(interval)
    if generation is not None:
        version = Version.open(folder.version(interval, generation))
        found.append(quarantine_of_version(version))
    if not found:
        raise NotFoundError(
            f"expected a published version of {folder.name}/{interval} in {folder.path}, or work"
            f" files of a build that failed in {env.work}, got neither; build it:"
            f" trainfeed build {folder.name} --interval {interval}"
        )
    return max(found, key=lambda quarantine: quarantine.modified_ms)


def _first_of_each(found: Quarantine, missing: set[str]) -> dict[str, QuarantinedRecord]:
    first: dict[str, QuarantinedRecord] = {}
    records: Iterator[QuarantinedRecord] = found.records()
    while len(first) < len(missing):
        record = next(records)
        first.setdefault(record.reason, record)
    return first


def _origin(found: Quarantine) -> dict[str, Any]:
    return {
        "dataset": found.dataset,
        "interval": found.interval,
        "generation" if found.is_published else "plan": found.origin,
        "published": found.is_published,
        "place": found.place,
    }


def _title(found: Quarantine, reasons: dict[str, int]) -> str:
    state = found.origin if found.is_published else f"plan {found.origin}, not published"
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "none"
    return f"{found.dataset}/{found.interval} ({state}): quarantined: {counts}; in {found.place}"


def _no_such_reason(found: Quarantine, reason: str, reasons: dict[str, int]) -> str:
    hint = did_you_mean(reason, list(reasons)) if reasons else "nothing is quarantined there"
    return (
        f"expected a reason of {found.dataset}/{found.interval} ({found.origin}), got {reason!r};"
        f" {hint}"
    )


def _reason_row(name: str, count: int, first: QuarantinedRecord) -> tuple[object, ...]:
    return name, count, f"{first.source} offset {first.offset}", first.message


def _record_row(record: QuarantinedRecord) -> tuple[object, ...]:
    held = _text(record.raw)
    shown = f"base64:{_base64(record.raw)}" if held is None else held
    if len(shown) > _SHOWN_CHARS:
        shown = f"{shown[:_SHOWN_CHARS]}… ({len(record.raw)} bytes; --json has all)"
    return record.source, record.offset, record.reason, record.message, shown.replace("\n", r"\n")


def _as_json(record: QuarantinedRecord) -> dict[str, Any]:
    """Return a record as JSON, with a text value as ``raw`` and others as ``raw_base64``."""
    held = _text(record.raw)
    value = {"raw_base64": _base64(record.raw)} if held is None else {"raw": held}
    return {
        "source": record.source,
        "offset": record.offset,
        "reason": record.reason,
        "message": record.message,
        **value,
    }


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
