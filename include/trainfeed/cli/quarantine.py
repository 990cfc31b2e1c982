"""``trainfeed quarantine``: bytes of rejected records, their preview and their replay."""

from __future__ import annotations

import base64
import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from trainfeed.cli.build import Training, build_one, declines, require_training, settle
from trainfeed.cli.build_ranges import build_each, result_of
from trainfeed.cli.command_groups import command
from trainfeed.cli.named_versions import Intervals, Name, intervals_asked, is_range, open_asked
from trainfeed.cli.printing import (
    Message,
    Part,
    Result,
    Table,
    counted_progress,
    error_console,
    program,
    with_json,
    with_json_or_list,
)
from trainfeed.cli.quarantine_lists import (
    BuildName,
    PlanId,
    Wanted,
    as_last_builds,
    as_one,
    list_accesses,
    list_reasons,
    newest_with_records,
    origin_of,
    title_of,
)
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.config import Environment
from trainfeed.errors import ConfigError, ConflictError, NotFoundError, TrainFeedError
from trainfeed.files.stores import posix
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.quarantine import Quarantine, QuarantinedRecord
from trainfeed.pipeline.quarantine_access import read_raw, read_raw_at
from trainfeed.pipeline.review import (
    InspectedRecord,
    QuarantinePreview,
    inspect_records,
    preview_quarantine,
)
from trainfeed.specification import DatasetSpec, did_you_mean, load_spec

# --- The reason that a person chose must be one of the builds that were asked for


def require_reason(reason: str | None, reasons: Collection[str], place: str) -> None:
    """Refuse a reason that no record has.

    Args:
        reason: What was asked for; None for all reasons.
        reasons: The reasons that are there.
        place: The builds, for the message.

    Raises:
        NotFoundError: No record has the reason.
    """
    if reason is None or reason in reasons:
        return
    hint = did_you_mean(reason, list(reasons)) if reasons else "nothing is quarantined there"
    raise NotFoundError(f"expected a reason of {place}, got {reason!r}; {hint}")


# --- A quarantined record as a row of a table, and as JSON

_SHOWN_CHARS: Final = 500


def record_row(each: InspectedRecord) -> tuple[object, ...]:
    """Return source, offset, time, reason, message, and the beginning of the value."""
    record = each.record
    shown = _shown(each).replace("\n", r"\n")
    return record.source, record.offset, _time(each), record.reason, record.message, shown


def _shown(each: InspectedRecord) -> str:
    if each.value is None:
        return "null"
    held = _text(each.value)
    shown = f"base64:{_base64(each.value)}" if held is None else held
    notes = [f"{len(each.value)} bytes; --json has all"] if len(shown) > _SHOWN_CHARS else []
    if each.record.may_be_cut:
        cut = f"cut at {len(each.record.raw)} bytes"
        notes = [f"{cut}, read again whole: {len(each.value)} bytes" if each.is_whole else cut]
    more = f"… ({', '.join(notes)})" if notes else ""
    return f"{shown[:_SHOWN_CHARS]}{more}"


def record_json(each: InspectedRecord) -> dict[str, Any]:
    """Return a record as JSON, with a text value as ``raw`` and others as ``raw_base64``."""
    record = each.record
    held = None if each.value is None else _text(each.value)
    value: dict[str, Any] = {"raw": held}
    if each.value is not None and held is None:
        value = {"raw_base64": _base64(each.value)}
    return {
        "source": record.source,
        "offset": record.offset,
        "time": _time(each) or None,
        "reason": record.reason,
        "message": record.message,
        "bytes": len(each.value or b""),
        "whole": each.is_whole,
        **({"not_from_landing": each.why_not} if each.why_not else {}),
        **value,
    }


def _time(each: InspectedRecord) -> str:
    if each.time_ms is None:
        return ""
    return datetime.fromtimestamp(each.time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# --- ``trainfeed quarantine show``: positions, times, reasons and bytes; each reading is audited

_PRIVATE: Final = 0o600
_STDOUT: Final = "-"


@with_json
def show_records(  # noqa: PLR0913 - options of a command
    name: Annotated[
        str,
        name_argument(
            "NAME/INTERVAL: the last build, published or not; NAME/INTERVAL/gNNNN: one version;"
            " NAME: the newest version that has any."
        ),
    ],
    asked: RangeWord = None,
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
) -> Result:
    """Show quarantined records of an interval.

    Position, time, reason and content of each. Without an interval: those of the newest published
    interval that has any, which the first line names; status 0 with a line when none has.
    Values that the quarantine has cut come whole from landing, or from the log files, while these
    are there. Every call adds a line to the audit of the data set, before a byte is shown.
    """
    wanted = Wanted.of(Target.parse(name, asked), plan)
    is_newest = wanted.is_whole_set and at is None
    found = newest_with_records(wanted, reason) if is_newest else as_one(wanted)
    reasons = found.reasons()
    require_reason(reason, reasons, f"{found.dataset}/{found.interval} ({found.origin})")
    if raw is not None:
        # JSON is refused before a byte is read.
        return Result(_one_without_json, _written(wanted, found, at, reason, raw))
    root = Path(wanted.env.root)
    if at is not None:
        records = [_record_at(root, found, at, reason, "show --at")]
    else:
        records = list(read_raw(root, found, "show", reason=reason, limit=limit))
    inspected = inspect_records(wanted.env, _spec(wanted.env, found), found, records)
    total = sum(reasons.values())
    matching = total if reason is None else reasons[reason]
    shown = [record_json(each) for each in inspected]
    return Result(
        {**origin_of(found), "records": total, "reasons": reasons, "shown": shown},
        chain(
            _newest_text(found, reasons, reason) if is_newest else (),
            _records_text(found, reasons, inspected, 1 if at is not None else matching)
            if reasons or not is_newest
            else (),
        ),
    )


def _newest_text(found: Quarantine, reasons: dict[str, int], reason: str | None) -> Iterator[Part]:
    """Yield the line that says which interval was chosen."""
    if reasons:
        of = "" if reason is None else f" of the reason {reason}"
        yield f"the newest published interval with rejected records{of} is {found.interval}"
    else:
        yield f"no published interval of {found.dataset} has rejected records"
        yield Message(f"those of builds that failed: {program()} quarantine ls {found.dataset}")


def _records_text(
    found: Quarantine, reasons: dict[str, int], inspected: Sequence[InspectedRecord], matching: int
) -> Iterator[Part]:
    yield title_of(found, reasons)
    columns = ("source", "offset", "time", "reason", "message", "record")
    yield Table(columns, map(record_row, inspected))
    if len(inspected) < matching:
        yield Message(f"{len(inspected)} of {matching} are shown; -n {matching} shows all")
    for why in dict.fromkeys(each.why_not for each in inspected if each.why_not):
        yield Message(f"as the quarantine keeps them, without time: {why}")


def _record_at(
    root: Path, found: Quarantine, at: str, reason: str | None, command: str
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
    return read_raw_at(root, found, command, place)


def _one_without_json() -> NoReturn:
    raise ConfigError("expected --at SOURCE:OFFSET beside --raw, and no --json: one record")


def _written(
    wanted: Wanted, found: Quarantine, at: str | None, reason: str | None, raw: str
) -> Iterator[Part]:
    """Write the exact bytes of the record at a position; yield what is said of a new file."""
    if at is None:
        _one_without_json()
    if raw == _STDOUT and sys.stdout.isatty():
        raise ConfigError("expected a pipe for --raw -, a terminal may obey raw bytes; name a file")
    record = _record_at(Path(wanted.env.root), found, at, reason, "show --raw")
    (each,) = inspect_records(wanted.env, _spec(wanted.env, found), found, [record])
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
        yield Message(f"{len(data)} bytes in {raw}")
    else:
        raise ConflictError(f"{raw}: the name is taken; nothing was written; name a new file")


def _spec(env: Environment, found: Quarantine) -> DatasetSpec | None:
    """Return the specification, which only log files that do not land need; None without one."""
    try:
        return load_spec(env.datasets / found.dataset)
    except TrainFeedError:
        return None


# --- ``trainfeed quarantine preview``: what the function of today makes of quarantined records

_LIMIT: Final = 10_000
_PREVIEW_COLUMNS: Final = (
    "interval",
    "reason",
    "records",
    "valid",
    "filtered",
    "still quarantined",
)


@with_json
def preview_records(
    name: BuildName,
    asked: RangeWord = None,
    *,
    plan: PlanId = None,
    reason: Annotated[str | None, typer.Option(help="Only records with this reason.")] = None,
    limit: Annotated[
        int, typer.Option("-n", min=1, help="At most this many records of each interval.")
    ] = _LIMIT,
) -> Result:
    """Try today's function on quarantined records alone.

    And say what would become of them.
    Code, specification, lookups and limits are those of a build now. Of each interval of a range
    the last build is previewed, published or not. Nothing is written but a line of the audit.
    """
    target = Target.parse(name, asked)
    wanted = Wanted.of(target, plan)
    spec = load_spec(wanted.env.datasets / wanted.folder.name)
    # A preview also shows the output of the function.
    logging.getLogger("trainfeed.printed").setLevel(logging.INFO)
    builds = list(as_last_builds(wanted))
    if reason is not None:
        reasons = [found.reasons() for found in builds]
        require_reason(reason, {each for found in reasons for each in found}, str(target))
        builds = [found for found, each in zip(builds, reasons, strict=True) if reason in each]
    reports: list[QuarantinePreview] = []
    for found in builds:
        with error_console().status(f"{spec.name}/{found.interval}"):
            reports.append(preview_quarantine(spec, wanted.env, found, reason=reason, limit=limit))
    found_of_each = [report.to_json() for report in reports]
    return Result(
        found_of_each[0] if wanted.is_one else found_of_each, _preview_text(target, reports)
    )


def _preview_text(target: Target, reports: list[QuarantinePreview]) -> Iterator[Part]:
    yield Table(_PREVIEW_COLUMNS, [row for report in reports for row in _rows(report)])
    for report in reports:
        yield from _examples(report)
        for note in report.notes:
            yield Message(f"{report.interval}: {note}")
    yield _summary(reports)
    if any(report.valid for report in reports):
        yield Message(f"make the next generations: {program()} quarantine replay {target}")


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


def _examples(report: QuarantinePreview) -> Iterator[Part]:
    rows: list[tuple[object, ...]] = []
    for each in report.outcomes:
        rows += [(*_place(sample), "valid", sample["sample"]) for sample in each.samples]
        rows += [
            (*_place(error), f"quarantined: {error['reason']}", error["message"])
            for error in each.errors
        ]
    if rows:
        yield f"\n{report.dataset}/{report.interval}: first records"
        yield Table(("source", "offset", "would be", "sample or message"), rows)


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


# --- ``trainfeed quarantine replay``: the next generations of intervals with quarantined records

_REPLAY_COLUMNS: Final = ("interval", "outcome", "generation", "samples", "quarantined", "note")
_COMMAND: Final = ("quarantine", "replay")


@with_json_or_list
def replay(
    name: Name,
    asked: RangeWord = None,
    *,
    interval: Intervals = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="How many intervals of a range are replayed at once.")
    ] = 1,
    why: Annotated[
        str | None,
        typer.Option(help="The reason to record; by default it counts the quarantined records."),
    ] = None,
    training: Training = None,
) -> Result:
    """Build intervals with quarantined records again.

    With the code of today, as the next generation.
    Every record of the interval is processed again, from the plan and the landing files of the
    last build: no broker is contacted. Log files that do not land must still be those of the plan.
    An interval without quarantined records is skipped; one that today's code would build as it is
    published is identical, so a second replay builds nothing. An interval that is not published is
    built. Status 0: done; 1: an interval failed; 2: wrong usage or settings; 130: ended.
    """
    target = Target.parse(name, asked)
    spec, env, asked = open_asked(target, interval, has_option=True)
    require_training(spec, training)
    if why is not None and not why.strip():
        raise ConfigError(f"expected a reason for --why, got {why!r}; say why")
    chosen = intervals_asked(spec, asked)
    names = [each.name for each in chosen]
    if not is_range(chosen, asked):
        untrained = declines(training, names, names[0])
        request = BuildRequest(rebuild=why, untrained=untrained, replay=True)
        return build_one(spec, env, chosen[0], request)

    def options(name: str) -> list[str]:
        said = [] if why is None else [f"--why={why}"]
        return [*said, *(["--training=none"] if declines(training, names, name) else [])]

    with counted_progress(f"replaying {spec.name}", len(names)) as count:
        results, is_ended = build_each(
            spec.name, names, options, jobs=jobs, on_end=count, command=_COMMAND
        )
    settle(spec, env, training, results)
    again = "are not replayed; run again: what is replayed is found identical"
    return result_of(results, again, is_ended=is_ended, columns=_REPLAY_COLUMNS)


# --- The group of the commands, in the order of their use

app = typer.Typer(
    help="Look at rejected records, and process them again.",
    epilog="Example: trainfeed quarantine ls flights/2013-01",
    no_args_is_help=True,
)
for _name, _command, _example in (
    ("ls", list_reasons, "ls flights/2013-01"),
    ("show", show_records, "show flights/2013-01-01 -n 20"),
    ("preview", preview_records, "preview flights/2013-01"),
    ("replay", replay, "replay flights/2013-01 --jobs 4"),
    ("audit", list_accesses, "audit flights"),
):
    command(app, _name, f"quarantine {_example}")(_command)
