"""Builds that publish nothing: a preview of the first records, and a dry run."""

from __future__ import annotations

import base64
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from trainfeed.core import canonical_json
from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import ConfigError, SourceMissingError
from trainfeed.files import listed, walk
from trainfeed.files.stores.posix import map_errors
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.gates.kinds import NEED_THE_INTERVAL, late_gates
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs.record_rules import late_policies
from trainfeed.pipeline.inputs.source_readers import reader_of
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import Plan, Planned, cut, load_plan, save_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.reports import Build, JsonObject, OutdatedRule, SkipReport
from trainfeed.pipeline.stage import Experience, Space, Stage, landed_bytes, space
from trainfeed.pipeline.tasks import group_by_member
from trainfeed.pipeline.version import total_statistics
from trainfeed.readers import DatasetReader
from trainfeed.specification import DatasetSpec, Gate
from trainfeed.versions import DatasetFolder, Version, init_root, require_root_of
from trainfeed.versions.layout import SKIPPED, plan_id_of
from trainfeed.versions.order import split_member

# --- A temporary publication root, to plan and build in while the real root stays unchanged

_PREFIX: Final = "trainfeed-"
# Of topics, and of tables.
_BOUNDARIES: Final = ("boundaries", "snapshots")


@contextmanager
def shadowed(
    env: Environment,
    dataset: str,
    interval: str,
    *,
    published: bool,
    neighbours: Sequence[str] = (),
) -> Iterator[Environment]:
    """Yield ``env`` with a temporary root that has a data set of the real one; removed at the end.

    Args:
        env: Folders and connections.
        dataset: The data set.
        interval: The interval that will be planned.
        published: Whether plans and versions of the interval are linked, too. Without them the
            interval counts as not published, and a version may be published in the shadow. With
            them it may not: a linked folder of versions is the real folder.
        neighbours: Intervals whose versions are linked, too, because a plan is compared with them.

    Raises:
        RootError: The root of ``env`` was not made by ``trainfeed init``.
    """
    real = DatasetFolder(Path(env.root), dataset)
    require_root_of(env)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as root:
        shadow = DatasetFolder(Path(root), dataset)
        init_root(shadow.root)
        with map_errors(real.path):
            for name in _BOUNDARIES:
                _link_files(real.path / name, shadow.path / name)
            _copy_files(real.path / "code", shadow.path / "code")
            _copy_uploads(real.uploads / interval, shadow.uploads / interval)
            _link_all(real.receipts, shadow.receipts)
            _copy_files(real.overrides(interval), shadow.overrides(interval))
            for kept in ("layouts", "lists"):
                _link_all(real.path / kept, shadow.path / kept)
            if published:
                plans = Path("plans") / interval
                _link_files(real.path / plans, shadow.path / plans)
                _link_folder(real.interval(interval), shadow.interval(interval))
            for name in neighbours:
                _link_folder(real.interval(name), shadow.interval(name))
        yield replace(env, root=root, bucket=None)


@contextmanager
def boundaries_apart(folder: DatasetFolder) -> Iterator[DatasetFolder]:
    """Yield a data set whose further boundary files are written elsewhere, and removed at the end.

    All else of it is the real one, and only to be read.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as root:
        apart = DatasetFolder(Path(root), folder.name)
        apart.path.mkdir()
        with map_errors(folder.path):
            for path in sorted(folder.path.iterdir()):
                if path.name in _BOUNDARIES:
                    _link_files(path, apart.path / path.name)
                else:
                    (apart.path / path.name).symlink_to(path)
        yield apart


def _link_files(source: Path, target: Path) -> None:
    """Copy the tree of folders below ``source``, with links in place of the files."""
    for path in walk(source):
        if path.suffix != ".json" or path.name == SKIPPED:
            continue  # the shadow decides again whether the interval is skipped
        link = target / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)


def _copy_files(source: Path, target: Path) -> None:
    """Copy files of JSON that are read without following links, and may be written."""
    for path in listed(source, "*.json"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path.name)


def _copy_uploads(source: Path, target: Path) -> None:
    """Copy the files of uploads, which are read without following links; a link stays a link."""
    for path in listed(source):
        if path.is_file() or path.is_symlink():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / path.name, follow_symlinks=False)


def _link_all(source: Path, target: Path) -> None:
    """Link all files below a folder; the shadow writes further ones beside the links."""
    for path in walk(source, hidden=False):
        if path.is_file():
            link = target / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)


def _link_folder(source: Path, target: Path) -> None:
    if source.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source, target_is_directory=True)


# --- The report of a dry run, its JSON, and its lines for a terminal

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class PlannedRead:
    """The planned read of one source.

    Attributes:
        source: The source string.
        start: First offset of a topic partition, or byte of a log file.
        end: The offset or byte behind the last.
        unit: Unit of ``start`` and ``end``.
        pieces: Number of ranges in which the source is read.
        landed_pieces: Number of these ranges that have already landed.
        bytes: Size of the log file, or of the landing files if all are there; else None.
    """

    source: str
    start: int
    end: int
    unit: Literal["bytes", "offsets"]
    pieces: int
    landed_pieces: int
    bytes: int | None


@dataclass(frozen=True)
class PlannedVersion:
    """The version that would be published.

    Attributes:
        version: Name of the version, with that of the data set.
        path: Folder of the version.
        supersedes: Generation before it, and the reason; None for a first generation.
        bytes: Estimated size; None without an earlier version to estimate from.
        estimated_from: Name of the version that the estimate comes from, or None.
    """

    version: str
    path: str
    supersedes: Mapping[str, object] | None
    bytes: int | None
    estimated_from: str | None


@dataclass(frozen=True)
class DryRunReport(
    JsonFields, also=("dry_run",), optional=("note", "empty_because", "passed_over")
):
    """The reads, tasks and version of a build that has not taken place.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        verdict: Verdict of the plan.
        generation: Name of the generation that would be built, or is published.
        lands: Whether records land before they are preprocessed.
        reads: The read of every source, of the first 100 at most.
        sources: Number of sources.
        offsets: Number of offsets that would be read in all.
        read_bytes: About how many bytes would come from the sources; None if unknown.
        tasks: Mapped stage → number of tasks.
        shards: Split → number of shards.
        publishes: The version.
        gaps: Ranges that are known to be lost.
        space: Needed and free space of every place.
        seconds: Duration of the dry run.
        note: Note of the plan, or None.
        empty_because: Source string → why nothing would be read of it.
        passed_over: The entries of the folder of logs that would not be read, in words, or None.
    """

    dry_run: ClassVar = True
    dataset: str
    interval: str
    verdict: Literal["build", "identical", "kept"]
    generation: str
    lands: bool
    reads: list[PlannedRead]
    sources: int
    offsets: int
    read_bytes: int | None
    tasks: Mapping[str, int]
    shards: Mapping[str, int]
    publishes: PlannedVersion
    gaps: list[JsonObject]
    space: list[Space]
    seconds: float
    _: KW_ONLY
    note: str | None = None
    empty_because: Mapping[str, str] = field(default_factory=dict)
    passed_over: str | None = None


@dataclass(frozen=True)
class DryRunSkip(JsonFields, also=("dry_run", "verdict")):
    """A build would skip the interval; ``note`` has the reason."""

    dry_run: ClassVar = True
    verdict: ClassVar = "skipped"
    dataset: str
    interval: str
    seconds: float
    note: str


DryRun: TypeAlias = DryRunReport | DryRunSkip


def describe(report: DryRun) -> list[str]:
    """Return the report of ``dry_run`` as lines for a terminal."""
    name = f"{report.dataset}/{report.interval}"
    if isinstance(report, DryRunSkip):
        return [f"dry run of {name}: {report.note}; a build would publish nothing"]
    if report.verdict == "kept":
        return [f"dry run of {name}: {report.note}; a build would read and publish nothing"]
    if report.verdict == "identical":
        verdict = "a build would find it identical, read nothing and publish nothing"
        if report.note is not None:  # such as that its inputs were not compared
            return [f"dry run of {name}: {verdict}; {report.note}"]
        same = f"{report.generation} is published from the same inputs"
        return [f"dry run of {name}: {same}; {verdict}"]
    lines = [f"dry run of {name}: nothing was written"]
    lines += [_read_line(part, lands=report.lands) for part in report.reads]
    if (more := report.sources - len(report.reads)) > 0:
        lines.append(f"would read     {more} more, and so on")
    lines.append(_total_line(report))
    for source, reason in report.empty_because.items():
        lines.append(f"nothing there  {source}: {reason}")
    if report.passed_over is not None:
        lines.append(f"passes over    {report.passed_over}")
    tasks = ", ".join(f"{count} {stage}" for stage, count in report.tasks.items())
    shards = ", ".join(f"{split} {count}" for split, count in report.shards.items())
    lines.append(f"would build    tasks: {tasks}; shards: {shards}")
    lines.append(_publish_line(report.publishes))
    lines += [_space_line(place) for place in report.space]
    return lines


def _read_line(part: PlannedRead, *, lands: bool) -> str:
    count = part.end - part.start
    line = f"would read     {part.source}"
    if part.unit == "bytes":
        line = f"{line}: {shown_size(count)} in {_counted(part.pieces, 'piece')}"
    else:
        line = f"{line} [{part.start}, {part.end}): {_counted(count, 'offset')}"
    is_read_there = part.unit == "bytes" and split_member(part.source)[0] and not part.landed_pieces
    if not lands or not count or is_read_there:
        return line
    if part.landed_pieces == part.pieces:
        return f"{line}, landed already ({shown_size(part.bytes)})"
    return f"{line}, {part.landed_pieces} of {part.pieces} landing files there already"


def _total_line(report: DryRunReport) -> str:
    line = f"would read     {_counted(report.sources, 'source')} in all"
    if report.offsets:
        line += f", {_counted(report.offsets, 'offset')}"
    if report.read_bytes is None:
        return line
    return f"{line}, about {shown_size(report.read_bytes)} of it from the source"


def _publish_line(publishes: PlannedVersion) -> str:
    size = "size unknown, no version of about this size is there to estimate it from"
    if publishes.estimated_from is not None:
        size = f"about {shown_size(publishes.bytes)}, estimated from {publishes.estimated_from}"
    line = f"would publish  {publishes.version}: {size}"
    if publishes.supersedes is not None:
        line += f"; supersedes generation {publishes.supersedes['generation']}"
    return line


def _space_line(place: Space) -> str:
    needed, free = place.needed_bytes, place.free_bytes
    wanted = "unknown" if needed is None else f"about {shown_size(needed)}"
    is_short = needed is not None and free is not None and needed > free
    verdict = ": too little" if is_short else ""
    left = f"{shown_size(free)} free{verdict}"
    return f"space          {place.place} {place.uri}: needs {wanted}, {left}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def shown_size(num_bytes: float | None) -> str:
    """Return a number of bytes for people; None is unknown."""
    if num_bytes is None:
        return "unknown"
    for unit in _UNITS:
        if num_bytes < 1024 or unit == _UNITS[-1]:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    raise AssertionError


# --- Reports what a build would do, without doing it: reads, tasks, shards, version, space

# Most sources in a report, so that JSON and log stay small.
_SHOWN_READS = 100


def dry_run(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    rebuild: str | None = None,
    allow_gap: str | None = None,
    outdated: OutdatedRule = OutdatedRule.FAIL,
) -> DryRun:
    """Report what a build of an interval would read, make and publish.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Folders and connections.
        rebuild: The reason for building a published interval again, or None.
        allow_gap: The reason for accepting that retention deleted records, or None.
        outdated: The rule for a published version that is outdated.

    Returns:
        The report; for an interval that a build would skip, the reason.

    Raises:
        TrainFeedError: The error of planning; a build would raise the same.
    """
    started = time.perf_counter()
    spec = spec.for_interval(interval.start)
    schedule = spec.schedule_model()
    near = [schedule.beside(interval.start)[0].name, schedule.beside(interval.end)[1].name]
    with shadowed(env, spec.name, interval.name, published=True, neighbours=near) as shadow:
        planned = plan(
            spec,
            interval,
            shadow,
            rebuild=rebuild,
            allow_gap=allow_gap,
            outdated=outdated,
            checks_space=False,
        )
        if isinstance(planned, SkipReport):
            note = planned.note.partition("; nothing was read")[0]
            return DryRunSkip(planned.dataset, planned.interval, planned.seconds, note)
        found = load_plan(DatasetFolder(Path(shadow.root), spec.name), planned.ref)
    stage = Stage(spec, env, found)
    landed = landed_bytes(stage)
    places = space(stage, landed)
    return DryRunReport(
        dataset=planned.ref.dataset,
        interval=planned.ref.interval,
        verdict=planned.verdict,
        generation=planned.generation,
        lands=spec.source.kind.lands,
        reads=list(islice(_reads(found, landed), _SHOWN_READS)),
        sources=len(found.sources),
        offsets=_span(found, "offsets"),
        read_bytes=_read_bytes(found, places[0]),
        tasks=planned.tasks,
        shards=found.shards,
        publishes=_publishes(found, env, planned.generation),
        gaps=found.gaps,
        space=places,
        seconds=round(time.perf_counter() - started, 3),
        note=planned.note,
        empty_because=planned.empty_because,
        passed_over=planned.passed_over,
    )


def _reads(found: Plan, landed: Mapping[int, int]) -> Iterator[PlannedRead]:
    ranges_of: dict[str, list[int]] = {source: [] for source in found.sources}
    for index, piece in enumerate(found.ranges):
        ranges_of[piece.source].append(index)
    for source, ranges in ranges_of.items():
        planned = found.inputs[source]
        is_counted_in_bytes = planned.unit == "bytes"
        is_landed = all(index in landed for index in ranges)
        size = sum(landed[index] for index in ranges) if is_landed else None
        yield PlannedRead(
            source=source,
            start=planned.start,
            end=planned.end,
            unit=planned.unit,
            pieces=len(ranges),
            landed_pieces=sum(index in landed for index in ranges),
            bytes=planned.end - planned.start if is_counted_in_bytes else size,
        )


def _read_bytes(found: Plan, landing: Space) -> int | None:
    """Return about how many bytes come from the source: log files, or what has not landed."""
    units = {part.unit for part in found.inputs.values()}
    known = _span(found, "bytes") if "bytes" in units else landing.needed_bytes
    return known if len(units) < 2 else None  # None of a union of both


def _span(found: Plan, unit: str) -> int:
    return sum(part.end - part.start for part in found.inputs.values() if part.unit == unit)


def _publishes(found: Plan, env: Environment, generation: str) -> PlannedVersion:
    folder = DatasetFolder(Path(env.root), found.dataset)
    experience = Experience.for_plan(found, env.root)
    return PlannedVersion(
        version=f"{found.dataset}/{found.interval['name']}/{generation}",
        path=str(folder.version(found.interval["name"], found.generation)),
        supersedes=found.supersedes,
        bytes=None if experience is None else round(found.span * experience.published_bytes),
        estimated_from=None if experience is None else experience.version,
    )


# --- The gates of a preview: judged on the first records alone, and without a consequence

# A severity of which no failure stops a build or is told: the report has the results.
_LOOK: Final = "look"
_NOT_JUDGED: Final = "not judged on a preview: it needs the whole interval"


def late_gate(spec: DatasetSpec, plan: Plan) -> list[Gate]:
    """Return the gate that a build of this plan adds for the policy ``late: fail``, if any."""
    return late_gates(late_policies(spec, plan.inputs).values())


def looked_at(gates: Sequence[Gate]) -> list[Gate]:
    """Return the gates that the first records can be held against."""
    return [{**gate, "severity": _LOOK} for gate in gates if _is_judged(gate)]


def shown_gates(whole: Sequence[Gate], results: Sequence[Gate]) -> list[JsonObject]:
    """Return the gates of a plan with what the preview found, and with their own severity.

    Args:
        whole: The gates of the plan of the whole interval.
        results: Those of ``looked_at`` as the manifest of the preview has them, in their order;
            further ones, which a build adds by itself, may follow.
    """
    found = iter(results)
    shown = [
        {**next(found), "severity": gate["severity"]}
        if _is_judged(gate)
        else {**gate, "value": None, "passed": None, "because": _NOT_JUDGED}
        for gate in whole
    ]
    return [*shown, *({**gate, "severity": "block"} for gate in found)]


def _is_judged(gate: Gate) -> bool:
    return gate["check"] not in NEED_THE_INTERVAL


# --- The report of a preview about the version that it built, small enough for a terminal

_QUARANTINE: Final = "quarantine/"
_SHOWN_SAMPLES: Final = 5
_SHOWN_QUARANTINE: Final = 10
_SHOWN_VALUES: Final = 8
_SHOWN_CHARS: Final = 200


def preview_report(version: Version, plan: Plan) -> JsonObject:
    """Return counts, the first samples and quarantined records, statistics and gates, as JSON.

    Args:
        version: What the preview built.
        plan: The plan of the whole interval, for its gates.
    """
    manifest = version.manifest
    return {
        "records": manifest.records_read,
        "samples": {name: split.samples for name, split in manifest.splits.items()},
        "quarantined": manifest.quarantine["reasons"],
        "filtered": manifest.filtered,
        "passed_over": manifest.passed_over,
        "first_samples": list(islice(_samples(version), _SHOWN_SAMPLES)),
        "first_quarantined": _quarantined(version),
        "statistics": total_statistics(version),
        "gates": shown_gates(plan.quality, manifest.gates),
    }


def _samples(version: Version) -> Iterator[JsonObject]:
    splits = version.manifest.splits
    for split in sorted(splits, key=lambda name: -splits[name].millionths):
        for sample in DatasetReader([version], split).reader()():
            yield {"split": split} | {name: shown_value(value) for name, value in sample.items()}


def shown_value(value: object) -> object:
    """Return a field's value as JSON, cut if it is long."""
    if isinstance(value, np.ndarray | np.generic):
        flat = np.asarray(value).reshape(-1)
        if flat.size == 1 and not np.asarray(value).shape:
            return _finite(flat[0].item())
        head = [_finite(item) for item in flat[:_SHOWN_VALUES].tolist()]
        return head if flat.size <= _SHOWN_VALUES else [*head, f"… {flat.size} values"]
    if isinstance(value, bytes):
        return _readable(value)
    return value if value is None else str(value)[:_SHOWN_CHARS]


def _finite(value: object) -> object:
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


def _readable(data: bytes) -> str:
    """Return bytes as text if they are UTF-8, else in base64; cut if they are long."""
    head = data[:_SHOWN_CHARS]
    try:
        return head.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(head).decode()}"


def _quarantined(version: Version) -> list[JsonObject]:
    (name,) = (file.name for file in version.manifest.files if file.name.startswith(_QUARANTINE))
    with pa.OSFile(str(version.path / name)) as file:
        table = pa.ipc.open_file(file).read_all()
    sources = version.manifest.sources
    return [
        {
            "source": sources[row["source"]],
            "offset": row["offset"],
            "reason": row["reason"],
            "message": row["message"],
            "raw": _readable(row["raw"]),
        }
        for row in table.slice(0, _SHOWN_QUARANTINE).to_pylist()
    ]


# --- Builds the first records of an interval to look at: samples, quarantine, statistics, gates


def preview(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    limit: int,
    allow_gap: str | None = None,
) -> JsonObject:
    """Build the first ``limit`` records of an interval, and return a report of the result.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Folders and connections; only the sources are read.
        limit: Offsets or lines to read, at least 1, divided among the sources; no headers of CSV.
        allow_gap: The reason for accepting that retention deleted records, or None.

    Returns:
        JSON: ``records``, ``samples``, ``quarantined`` and ``filtered`` counts, ``passed_over``
        (name → reason of the entries of a folder of logs that are not read), ``first_samples``
        and ``first_quarantined``, ``statistics`` per field, ``gates`` with their results for these
        records, ``seconds``. Gates that need the whole interval are not judged: their ``value`` and
        ``passed`` are None.

    Raises:
        ConfigError: ``limit`` is less than 1.
        TrainFeedError: The error of a stage.
    """
    if limit < 1:
        raise ConfigError(f"expected a limit of at least 1, got {limit}")
    started = time.perf_counter()
    spec = spec.for_interval(interval.start)
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX) as work,
        shadowed(env, spec.name, interval.name, published=False) as shadow,
    ):
        place = replace(shadow, landing=f"{work}/landing", work=f"{work}/work")
        place, passed_over = reader_of(spec).head(spec, interval, place, Path(work), limit)
        planned = plan(spec, interval, place, allow_gap=allow_gap, checks_space=False)
        if isinstance(planned, SkipReport):
            raise SourceMissingError(planned.note)
        # The usual stages, one task for each source: only their plan is replaced by a shorter one.
        folder = DatasetFolder(Path(place.root), spec.name)
        whole = load_plan(folder, planned.ref)
        short = _shortened(whole, limit, late_gate(spec, whole))
        # The plan has looked at the copies alone.
        short = short.model_copy(update={"passed_over": dict(passed_over)})
        build = Build(spec, place, save_plan(folder, short).ref())
        for stage, unit in product((ingest, preprocess), range(len(short.ingest))):
            stage(build, unit)
        convert(build, 0)
        check(build)
        publish(build)
        report = preview_report(Version.resolve(folder, interval.name), whole)
    seconds = round(time.perf_counter() - started, 3)
    return {"dataset": spec.name, "interval": interval.name, **report, "seconds": seconds}


def _shortened(whole: Plan, limit: int, late: Sequence[Gate]) -> Plan:
    """Return the plan of the first records: one task per stage, gates that stop nothing."""
    # Inputs in bytes stay whole: ``SourceReader.head`` has copied only their first records, of
    # files of a union as many as their member's share.
    units = {split_member(source)[0]: each.unit for source, each in whole.inputs.items()}
    topics = list(units.values()).count("offsets")
    first = _first(whole.inputs, -(-limit * topics // max(1, len(units))))
    inputs = {**whole.inputs, **first}
    ranges = [piece for piece in whole.ranges if piece.source not in first] + cut(first, limit)
    ranges.sort(key=lambda piece: piece.source.encode())
    values = whole.fingerprint_of | {
        "inputs": {source: planned.fingerprint() for source, planned in inputs.items()}
    }
    fingerprint = canonical_json.sha256_of(values)
    shards = dict.fromkeys(whole.shards, 1)
    group = group_by_member(ranges, dict.fromkeys(units, sum(p.end - p.start for p in ranges)))
    update = {
        "plan_id": plan_id_of(fingerprint, whole.generation),
        "fingerprint": fingerprint,
        "fingerprint_of": values,
        "inputs": inputs,
        "ranges": ranges,
        "file_list": None,
        "ingest": group,
        "preprocess": group,
        "shards": shards,
        "references": [],
        "quality": looked_at([*whole.quality, *late]),
    }
    short = whole.model_copy(update=update)
    return short.model_copy(update={"convert": [short.all_shards()]})


def _first(planned: Mapping[str, Planned], limit: int) -> dict[str, Planned]:
    """Return ranges with ``limit`` offsets in all, from as many sources as possible."""
    inputs = {source: part for source, part in planned.items() if part.unit == "offsets"}
    shares = dict.fromkeys(inputs, 0)
    left = limit
    # The smallest sources first: the part of their share that they cannot use goes to the others.
    waiting = sorted(inputs, key=lambda source: inputs[source].end - inputs[source].start)
    for number, source in enumerate(waiting):
        size = inputs[source].end - inputs[source].start
        shares[source] = min(size, -(-left // (len(waiting) - number)))
        left -= shares[source]
    return {
        source: part.model_copy(update={"end": part.start + shares[source]})
        for source, part in inputs.items()
    }
