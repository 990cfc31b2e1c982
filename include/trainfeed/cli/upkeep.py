"""``trainfeed gc``, ``prune``, ``retire``, ``repair``, ``waive``, ``waivers``, ``boundaries``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import (
    Who,
    known_folder,
    named_person,
    readable_environment,
    reason_or_dry_run,
)
from trainfeed.cli.command_groups import command
from trainfeed.cli.completion import specified
from trainfeed.cli.named_versions import (
    Name,
    VersionName,
    one_generation,
    open_asked,
    starts_in,
)
from trainfeed.cli.printing import (
    Message,
    Part,
    Result,
    Table,
    error_console,
    first_line,
    program,
    table,
    with_dry_run,
    with_json,
)
from trainfeed.cli.targets import RangeWord, SetName, Target, name_argument
from trainfeed.core.accounts import account_name, person
from trainfeed.core.config import Environment, environment_from_environ
from trainfeed.core.intervals import format_time, parse_time
from trainfeed.errors import AccessDeniedError, ConfigError, TrainFeedError
from trainfeed.pipeline.inputs.boundary_check import CheckedFile, Repair, check_boundaries, repairs
from trainfeed.pipeline.inputs.recorded_edges import restore_boundaries
from trainfeed.pipeline.leftovers import OLD, Swept, sweep
from trainfeed.pipeline.waivers import (
    UnreadWaiver,
    Waivable,
    WaiverState,
    WaiverWish,
    next_command,
    waivable,
    waiver_states,
)
from trainfeed.pipeline.waivers import waive as write_waiver
from trainfeed.specification import check_name, did_you_mean, gate_name, load_spec, shown_number
from trainfeed.training.kept_jobs import LeftObject, abandoned_launches, sweep_launches
from trainfeed.upkeep.repair import RepairReport, RepairWish
from trainfeed.upkeep.repair import repair as repair_version
from trainfeed.upkeep.retention import KINDS, Context, Kind, Removals, prune, retired_lines
from trainfeed.upkeep.retention import retire as remove_for_good
from trainfeed.versions import DatasetFolder, range_of, require_writable_root
from trainfeed.versions.root import data_sets_of

# --- What retention removed or kept, as a table

_REMOVAL_COLUMNS: Final = ("", "what", "kind", "bytes", "why")


def _removal_tables(found: dict[str, Removals], *, dry_run: bool) -> list[Part]:
    """Return a row for each item that went or would go, then for each that stays; [] if none."""
    verb = "would remove" if dry_run else "removed"
    rows = [
        [word, f"{name}/{each.item.name}", each.item.kind, each.item.num_bytes, each.why]
        for name, removals in found.items()
        for word, items in ((verb, removals.expired), ("stays", removals.kept))
        for each in items
    ]
    return [Table(_REMOVAL_COLUMNS, rows)] if rows else []


_with_removals = with_dry_run("Only print what would be removed.")


# --- ``trainfeed prune``: removes what data sets no longer keep, by their rules


@with_json
@_with_removals
def prune_dataset(
    name: Annotated[str | None, name_argument("The data set.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All data sets.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this kind, of {', '.join(each.name for each in KINDS)}."),
    ] = None,
    dry_run: bool = False,
    clock_is_right: Annotated[
        str | None,
        typer.Option(
            metavar="WHY", help="The clock is right, although times in the data set differ."
        ),
    ] = None,
) -> Result:
    """Remove versions by the retention rules of dataset.yaml.

    And what else these rules do not keep, but never what is in use. For leftovers of killed builds
    see trainfeed gc; to remove intervals by hand, for good, trainfeed retire.

    Status 1 when a data set could not be pruned, or stays above its `max_bytes`.
    """
    env = environment_from_environ()
    env.refuse_public_root()
    kinds = _asked(kind)
    names = _names(env, name, every=every)
    found: dict[str, Removals] = {}
    errors: dict[str, TrainFeedError] = {}
    for each in names:
        try:
            with error_console().status(f"{each}: what is not kept"):
                context = Context.of(load_spec(env.datasets / each), env)
                found[each] = prune(context, kinds, dry_run=dry_run, clock_is_right=clock_is_right)
        except TrainFeedError as error:
            if not every:
                raise
            errors[each] = error
    failed = [{"dataset": name, "error": str(error)} for name, error in errors.items()]
    is_over = any(removals.excess for removals in found.values())
    return Result(
        [*({"dataset": name, **each.to_json()} for name, each in found.items()), *failed],
        _pruned_text(found, dry_run=dry_run),
        [f"{name}: {type(error).__name__}: {error}" for name, error in errors.items()],
        Result.FAILED if errors or is_over else 0,
    )


def _asked(names: list[str] | None) -> list[Kind[Any]]:
    known = {each.name: each for each in KINDS}
    for name in names or []:
        if name not in known:
            raise ConfigError(f"expected a kind, got {name!r}; {did_you_mean(name, known)}")
    return [each for each in KINDS if not names or each.name in names]


def _names(env: Environment, name: str | None, *, every: bool) -> list[str]:
    if (name is None) != every:
        raise ConfigError("expected the name of a data set, or --all for all of them")
    return sorted(specified(env)) if name is None else [Target.parse(name).of_whole_set()]


def _pruned_text(found: dict[str, Removals], *, dry_run: bool) -> Iterator[Part]:
    will_go = "would remove" if dry_run else "removed"
    yield from _removal_tables(found, dry_run=dry_run)
    for name, removals in found.items():
        for kind, (number, size) in removals.by_kind().items():
            yield f"{name}: {will_go} {number} {kind}, {size} bytes"
        if not removals.expired:
            yield f"{name}: {will_go} nothing"
        for excess in removals.excess:
            yield Message(f"{name}: {excess.told}")


# --- ``trainfeed retire``: a person removes whole intervals for good


@with_json
@_with_removals
def retire(
    name: Name,
    asked: RangeWord = None,
    *,
    why: Annotated[str | None, typer.Option(help="The reason, which the interval keeps.")] = None,
    who: Who = None,
    dry_run: bool = False,
) -> Result:
    """Remove all versions of the intervals you name, for good.

    By the decision of a person, with a reason; the numbers of the versions are not used again. What
    the rules of dataset.yaml drop is for trainfeed prune, leftovers for trainfeed gc.

    Status 1 when a tag, a lease, a training without a result, a plan or a gate needs one of them;
    nothing is removed then. Skipped and unpublished intervals are retired, too.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    target = Target.parse(name, asked)
    spec, env, asked = open_asked(target)
    env.refuse_public_root()
    with error_console().status(f"{target}: what needs it"):
        context = Context.of(spec, env, who=named_person(who))
        done = remove_for_good(context, asked, reason, dry_run=dry_run)
    removed = _removal_tables({spec.name: done.removals}, dry_run=done.dry_run)
    return Result(
        {"dataset": spec.name, "range": asked, **done.to_json()},
        [*removed, *first_line(retired_lines(spec.name, asked, done))],
        status=Result.FAILED if done.refused else 0,
    )


# --- ``trainfeed gc``: removes what killed and abandoned builds and launches left behind

_LEFTOVER_COLUMNS: Final = ("place", "bytes", "modified")


@with_json
@with_dry_run("Only print the leftovers.")
def gc(
    *,
    older_than: Annotated[
        int,
        typer.Option(
            min=0,
            help="Least age in hours: since a file was modified, a launch began.",
        ),
    ] = round(OLD / timedelta(hours=1)),
    dry_run: bool = False,
) -> Result:
    """Remove what killed builds left behind, and no version.

    Leftovers of launches, too; landed records stay. Versions are for trainfeed prune, which follows
    the rules of dataset.yaml, and for trainfeed retire, which removes what a person names.
    """
    env, age = environment_from_environ(), timedelta(hours=older_than)
    with error_console().status("looking for leftovers"):
        # Found before any file is removed: an error here must not hide what was removed.
        jobs = abandoned_launches(Path(env.root), older_than=age)
        files = sweep(env, older_than=age, dry_run=dry_run)
        objects = sweep_launches(jobs, env.clusters, dry_run=dry_run)
    removed: list[Swept | LeftObject] = [*files, *objects]
    verb, size = "would remove" if dry_run else "removed", sum(each.bytes for each in removed)
    rows = [asdict(each) for each in removed]
    text: list[Part] = [Table(_LEFTOVER_COLUMNS, rows)] if rows else []
    return Result(rows, [*text, f"{verb} {len(removed)} leftovers, {size} bytes"])


# --- ``trainfeed repair``: damaged files of a published version become what they were


@with_json
@with_dry_run("Only show the damage, and how it would be repaired.")
def repair(
    name: VersionName,
    asked: RangeWord = None,
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
    dry_run: bool = False,
) -> Result:
    """Make the damaged files of a version what they were.

    They are copied from where they are intact, or made again by the stages of the version's plan.
    A file is replaced only by one with the size and SHA-256 of the manifest; what nobody
    published is moved to _trash. Status 3: damage is left, or was found in a dry run. For record
    files without a manifest, see trainfeed file repair.
    """
    target = Target.parse(name, asked)
    name, interval, generation = one_generation(target)
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    wish = RepairWish(why=why, who=named_person(who), dry_run=dry_run, backup=backup)
    with error_console().status(f"{target}: files are compared, and made again"):
        report = repair_version(spec, env, interval, generation, wish)
    status = 0 if report.is_whole else Result.DAMAGED
    return Result(report.to_json(), _repaired_text(report), status=status)


def _repaired_text(report: RepairReport) -> Iterator[Part]:
    if not report.files:
        yield f"{report.version} is intact"
        return
    for each in report.files:
        found = each.finding
        yield f"{found.name}: {found.kind}: {found.what}"
        yield f"  {each.outcome}: {each.how}"
    if report.dry_run:
        yield Message("nothing was changed, this was a dry run")
        return
    effort = report.effort
    if effort.shards or effort.records:
        yield Message(
            f"computed again: {effort.records} records, {effort.source_reads} of them read from"
            f" the source, and {effort.shards} shards, in {effort.seconds:.1f} s"
        )
    if report.is_whole:
        yield f"{report.version} is intact again"
        return
    yield Message(f"{report.version} is still damaged; these ways are left:")
    for offer in report.offers:
        yield Message(f"  {offer}")


# --- ``trainfeed waive``: a person lets failed gates of one build pass, as they were measured


@with_json
@with_dry_run("Only show the gates that failed.")
def waive(  # noqa: PLR0913 - options of a command
    name: Annotated[str, name_argument("NAME/INTERVAL.")],
    asked: RangeWord = None,
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
    dry_run: bool = False,
) -> Result:
    """Let failed quality gates of a build pass.

    Only with the values that they have now; the build is not published yet.

    The waiver is a file beside the plan, and stands in the manifest. Building again then runs
    check and publish; nothing is computed twice.
    """
    env = environment_from_environ()
    require_writable_root(env)
    target = Target.parse(name, asked).to_change().of_intervals()
    if target.asked is None or "/" in target.asked:
        raise ConfigError(f"expected NAME/INTERVAL, got {str(target)!r}")
    found = waivable(DatasetFolder(Path(env.root), target.name), target.asked, plan)

    def written() -> dict[str, Any]:
        if dry_run:
            return {}
        if why is None or until is None:
            raise ConfigError("expected --why and --until, or --dry-run; nothing was written")
        decided = named_person(who), account_name(), why, parse_time(until)
        wish = WaiverWish(*decided, check or (), field or ())
        return {"waiver": write_waiver(env, found, wish, datetime.now(UTC)).to_json()}

    command = next_command(found.plan).replace("trainfeed", program(), 1)
    facts = {
        "plan": found.plan.plan_id,
        "failed": [dict(gate) for gate in found.refused.gates],
        "next": command,
    }
    # The gates are shown before anything is written, or refused.
    return Result(lambda: facts | written(), _waived_text(str(target), found, written, command))


def _waived_text(
    target: str, found: Waivable, written: Callable[[], dict[str, Any]], command: str
) -> Iterator[Part]:
    yield f"{target} (plan {found.plan.plan_id}) is not published; gates that failed:"
    yield Table((), [[line] for line in found.refused.lines])
    if (waiver := written().get("waiver")) is not None:
        decided = f"{person(waiver['who'], waiver['account'])} until {waiver['until']}"
        yield (
            f"{len(waiver['gates'])} of {len(found.refused.gates)} waived by {decided}:"
            f" {waiver['why']}"
        )
        yield Message(f"publish it: {command} (in Airflow: clear the task check of the run)")


# --- ``trainfeed waivers``: the waivers of data sets, and what became of them

waivers = typer.Typer(
    help="Show who let failed gates pass, why, and until when.",
    epilog="Example: trainfeed waivers ls flights",
    no_args_is_help=True,
)

_WAIVER_COLUMNS: Final = ("interval", "plan", "state", "gates", "who", "why", "until")


@waivers.callback()
def _waivers_group() -> None:
    """Keep ``ls`` a command of its own: typer merges a single command into its group."""


@command(waivers, "ls", "waivers ls flights/2013-01-01")
@with_json
def list_waivers(
    name: Annotated[str | None, name_argument("NAME[/RANGE]; by default all data sets.")] = None,
    asked: RangeWord = None,
) -> Result:
    """List waivers: used by a version, unused, holding, or over.

    Status 3 when a waiver is damaged, 1 when waivers are closed to this account; the others are
    listed all the same.
    """
    now = datetime.now(UTC)
    target = None if name is None else Target.parse(name, asked).of_intervals()
    asked = None if target is None else target.asked
    root = Path(readable_environment().root)
    names = data_sets_of(root) if target is None else [known_folder(target.name).name]
    found: list[WaiverState | UnreadWaiver] = []
    closed: list[AccessDeniedError] = []
    for each in names:
        try:
            found += _states(DatasetFolder(root, each), now, asked)
        except AccessDeniedError as error:
            closed.append(error)
    unread = [state for state in found if isinstance(state, UnreadWaiver)]
    rows = [_row(state) for state in found if isinstance(state, WaiverState)]
    is_closed = not rows and (unread or closed)
    status = Result.DAMAGED if any(each.is_damaged for each in unread) else Result.FAILED
    return Result(
        [state.to_json() for state in found],
        () if is_closed else table(_WAIVER_COLUMNS, rows, "no waiver was found"),
        map(str, [*closed, *(each.error for each in unread)]),
        status if unread or closed else 0,
    )


def _states(
    folder: DatasetFolder, now: datetime, asked: str | None
) -> Iterator[WaiverState | UnreadWaiver]:
    """Yield the waivers of an interval, of those that start in a range, or of all for None."""
    if asked is None or asked in folder.planned_intervals():
        yield from waiver_states(folder, now, asked)
        return
    span = range_of(folder, asked)
    for name in folder.planned_intervals():
        if starts_in(name, span):
            yield from waiver_states(folder, now, name)


def _row(state: WaiverState) -> list[object]:
    waiver = state.waiver
    in_version = f" by {state.generation}" if state.state == "used" else ""
    gates = [f"{gate_name(gate)} {shown_number(gate['value'])}" for gate in waiver.gates]
    return [
        f"{state.dataset}/{state.interval}",
        waiver.plan,
        f"{state.state}{in_version}",
        ", ".join(gates),
        waiver.by,
        waiver.why,
        waiver.until,
    ]


# --- ``trainfeed boundaries``: compares boundary files with today's rule, and restores them

boundaries = typer.Typer(
    help="Check where intervals begin and end in topics.",
    epilog="Example: trainfeed boundaries check flights",
    no_args_is_help=True,
)

_BOUNDARY_COLUMNS = ("topic", "at", "verdict", "partition", "stored", "found", "records between")
_WARNING = (
    "until all of these have ended, readers of the intervals see some records twice or not at all;"
    " later intervals need no build: their boundaries are right"
)


@boundaries.callback()
def _boundaries_group() -> None:
    """Check where intervals begin and end in topics."""


@command(boundaries, "check", "boundaries check flights --json")
@with_json
def check(name: SetName) -> Result:
    """Compare boundary files with the records of the topics.

    Every boundary of the data set is computed again.
    Nothing is changed. Status 3 when one differs; those whose records the topic no longer holds
    cannot be checked.
    """
    env = readable_environment()
    spec = load_spec(env.datasets / check_name(Target.parse(name).of_whole_set()))
    files = check_boundaries(spec, env)
    fixes = list(repairs(spec, env, files))
    return Result(
        {"files": [_file(file) for file in files], "repairs": [_fix(fix) for fix in fixes]},
        _boundaries_text(files, fixes),
        status=Result.DAMAGED if fixes else 0,
    )


@command(boundaries, "restore", "boundaries restore flights")
@with_json
def restore(name: SetName) -> Result:
    """Write missing or damaged boundary files again.

    Also those that were changed, from published versions: the manifests of the intervals on both
    sides have the offsets. No topic is read. Status 3 when a file stays as it is, because the two
    differ or a gap hides the offset.
    """
    require_writable_root(environment_from_environ())
    files = list(restore_boundaries(known_folder(Target.parse(name).of_whole_set())))
    rows = [(str(each.path), each.was, each.why_not or "written again") for each in files]
    intact = "every boundary file is as the published versions recorded it"
    return Result(
        {"files": [each._asdict() | {"path": str(each.path)} for each in files]},
        Table(("file", "was", "now"), rows) if rows else intact,
        status=Result.DAMAGED if any(each.why_not for each in files) else 0,
    )


def _boundaries_text(files: Sequence[CheckedFile], fixes: Sequence[Repair]) -> Iterator[Part]:
    if rows := [row for file in files for row in _rows(file)]:
        yield Table(_BOUNDARY_COLUMNS, rows)
    counts = {
        verdict: sum(file.verdict == verdict for file in files)
        for verdict in ("right", "differs", "cannot be checked")
    }
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    for fix in fixes:
        intervals = ", ".join(fix.intervals) or "none of the schedule"
        yield f"\ntopic {fix.topic}, intervals {intervals}:"
        yield "\n".join(fix.commands)
    if fixes:
        yield Message(_WARNING)


def _rows(file: CheckedFile) -> list[tuple[object, ...]]:
    head = (file.topic, format_time(file.at), file.verdict)
    if file.verdict != "right" and not file.differences:
        return [(*head, "", "", "", "")]
    return [
        (*head, each.partition, each.stored, "" if each.found is None else each.found, each.records)
        for each in file.differences
    ]


def _file(file: CheckedFile) -> dict[str, Any]:
    differences = [
        {
            "partition": each.partition,
            "stored": each.stored,
            "found": each.found,
            "records": each.records,
        }
        for each in file.differences
    ]
    return {
        "path": str(file.path),
        "topic": file.topic,
        "at": format_time(file.at),
        "verdict": file.verdict,
        "partitions": differences,
    }


def _fix(fix: Repair) -> dict[str, Any]:
    return {
        "topic": fix.topic,
        "intervals": list(fix.intervals),
        "commands": list(fix.commands),
        "warning": _WARNING,
    }
