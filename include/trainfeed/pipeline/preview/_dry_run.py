"""What a build would do, without doing it: reads, tasks, shards, version, space.

The interval is planned by the stage ``plan`` itself, in a shadow of the publication root. So what
is said here is what a build would do, and the root, the landing area and the work area are left
as they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.preview._shadow import shadowed
from trainfeed.pipeline.stage import Experience, landed_bytes, space
from trainfeed.specification import DatasetSpec
from trainfeed.window import Interval

__all__ = ["describe", "dry_run"]

_STAGES = ("ingest", "preprocess", "convert")
# More of them would be no small JSON, and a log that nobody reads.
_SHOWN_READS = 100
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def dry_run(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    rebuild: str | None = None,
    allow_gap: str | None = None,
) -> dict[str, Any]:
    """Say what building an interval would read, make and publish.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Where things are.
        rebuild: Why a published interval would be built again.
        allow_gap: Why records that retention deleted might be missing.

    Returns:
        Small JSON: ``dataset``, ``interval``, ``dry_run`` (true), ``verdict`` and ``generation``
        as ``plan`` gives them, ``lands``, ``reads`` (per source its range; of very many sources
        the first ones), ``sources`` and ``offsets`` (how many in all), ``read_bytes`` (estimate of
        what has not landed yet, or None), ``tasks`` (per stage how many), ``shards``
        (per split), ``publishes``, ``gaps``, ``space`` and ``seconds``; ``note`` and
        ``empty_because``, when ``plan`` gave them. Of an interval that a build would leave out
        ``dataset``, ``interval``, ``dry_run``, ``verdict`` (skipped), ``note`` and ``seconds``.

    Raises:
        TrainFeedError: Whatever planning raises; a build would end the same way.
    """
    started = time.perf_counter()
    with shadowed(env, spec.name, interval.name, published=True) as shadow:
        planned = plan(
            spec, interval, shadow, rebuild=rebuild, allow_gap=allow_gap, checks_space=False
        )
        if planned["verdict"] == "skipped":
            return _skipped(planned)
        found = load_plan(DatasetFolder(Path(shadow.root), spec.name), PlanRef.from_json(planned))
    landed = landed_bytes(spec, found, env)
    places = space(spec, found, env, landed)
    return {
        "dry_run": True,
        **{name: planned[name] for name in ("dataset", "interval", "verdict", "generation")},
        "lands": spec.source.kind.lands,
        "reads": list(islice(_reads(found, landed), _SHOWN_READS)),
        "sources": len(found.sources),
        "offsets": _span(found, "offsets"),
        "read_bytes": _read_bytes(found, places[0]),
        "tasks": {stage: len(planned[stage]) for stage in _STAGES},
        "shards": found.shards,
        "publishes": _publishes(found, env, planned["generation"]),
        "gaps": found.gaps,
        "space": places,
        "seconds": round(time.perf_counter() - started, 3),
        **{name: planned[name] for name in ("note", "empty_because") if name in planned},
    }


def _skipped(planned: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of an interval that a build would leave out."""
    told = {name: planned[name] for name in ("dataset", "interval", "verdict", "seconds")}
    note = planned["note"].partition("; nothing was read")[0]
    return {"dry_run": True, **told, "note": note}


def describe(report: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell a person what ``dry_run`` found."""
    name = f"{report['dataset']}/{report['interval']}"
    if report["verdict"] == "identical":
        found = f"{report['generation']} is published from the same inputs"
        verdict = "a build would find it identical, read nothing and publish nothing"
        notes = [report["note"]] if "note" in report else []
        return ["; ".join([f"dry run of {name}: {found}", verdict, *notes])]
    if report["verdict"] == "skipped":
        return [f"dry run of {name}: {report['note']}; a build would publish nothing"]
    lines = [f"dry run of {name}: nothing was written"]
    lines += [_read_line(part, lands=report["lands"]) for part in report["reads"]]
    if (more := report["sources"] - len(report["reads"])) > 0:
        lines.append(f"would read     {more} more, and so on")
    lines.append(_total_line(report))
    for source, reason in report.get("empty_because", {}).items():
        lines.append(f"nothing there  {source}: {reason}")
    tasks = ", ".join(f"{count} {stage}" for stage, count in report["tasks"].items())
    shards = ", ".join(f"{split} {count}" for split, count in report["shards"].items())
    lines.append(f"would build    tasks: {tasks}; shards: {shards}")
    lines.append(_publish_line(report["publishes"]))
    lines += [_space_line(place) for place in report["space"]]
    return lines


def _reads(found: Plan, landed: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    ranges_of: dict[str, list[int]] = {source: [] for source in found.sources}
    for index, piece in enumerate(found.ranges):
        ranges_of[piece.source].append(index)
    for source, ranges in ranges_of.items():
        planned = found.inputs[source]
        is_counted_in_bytes = planned.unit == "bytes"
        is_landed = all(index in landed for index in ranges)
        size = sum(landed[index] for index in ranges) if is_landed else None
        yield {
            "source": source,
            "start": planned.start,
            "end": planned.end,
            "unit": planned.unit,
            "pieces": len(ranges),
            "landed_pieces": sum(index in landed for index in ranges),
            "bytes": planned.end - planned.start if is_counted_in_bytes else size,
        }


def _read_bytes(found: Plan, landing: Mapping[str, Any]) -> int | None:
    """Return about how many bytes come from the source: all of log files, what has not landed."""
    needed: int | None = landing["needed_bytes"]
    is_counted_in_bytes = any(part.unit == "bytes" for part in found.inputs.values())
    return _span(found, "bytes") if is_counted_in_bytes else needed


def _span(found: Plan, unit: str) -> int:
    return sum(part.end - part.start for part in found.inputs.values() if part.unit == unit)


def _publishes(found: Plan, env: Environment, generation: str) -> dict[str, Any]:
    folder = DatasetFolder(Path(env.root), found.dataset)
    experience = Experience.for_plan(found, env.root)
    positions = sum(piece.end - piece.start for piece in found.ranges)
    return {
        "version": f"{found.dataset}/{found.interval['name']}/{generation}",
        "path": str(folder.version(found.interval["name"], found.generation)),
        "supersedes": found.supersedes,
        "bytes": None if experience is None else round(positions * experience.published_bytes),
        "estimated_from": None if experience is None else experience.version,
    }


def _read_line(part: Mapping[str, Any], *, lands: bool) -> str:
    count = part["end"] - part["start"]
    line = f"would read     {part['source']}"
    if part["unit"] == "bytes":
        line = f"{line}: {_size(count)} in {_counted(part['pieces'], 'piece')}"
    else:
        line = f"{line} [{part['start']}, {part['end']}): {_counted(count, 'offset')}"
    if not lands or not count:
        return line
    if part["landed_pieces"] == part["pieces"]:
        return f"{line}, landed already ({_size(part['bytes'])})"
    return f"{line}, {part['landed_pieces']} of {part['pieces']} landing files there already"


def _total_line(report: Mapping[str, Any]) -> str:
    line = f"would read     {_counted(report['sources'], 'source')} in all"
    if report["offsets"]:
        line += f", {_counted(report['offsets'], 'offset')}"
    if report["read_bytes"] is None:
        return line
    return f"{line}, about {_size(report['read_bytes'])} of it from the source"


def _publish_line(publishes: Mapping[str, Any]) -> str:
    size = "size unknown, no version of about this size is there to estimate it from"
    if publishes["estimated_from"] is not None:
        size = f"about {_size(publishes['bytes'])}, estimated from {publishes['estimated_from']}"
    line = f"would publish  {publishes['version']}: {size}"
    if publishes["supersedes"] is not None:
        line += f"; supersedes generation {publishes['supersedes']['generation']}"
    return line


def _space_line(place: Mapping[str, Any]) -> str:
    needed = "unknown" if place["needed_bytes"] is None else f"about {_size(place['needed_bytes'])}"
    free = "unknown" if place["free_bytes"] is None else _size(place["free_bytes"])
    verdict = ""
    if None not in {place["needed_bytes"], place["free_bytes"]}:
        verdict = ": too little" if place["needed_bytes"] > place["free_bytes"] else ""
    return f"space          {place['place']} {place['uri']}: needs {needed}, {free} free{verdict}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _size(num_bytes: float) -> str:
    for unit in _UNITS:
        if num_bytes < 1024 or unit == _UNITS[-1]:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    raise AssertionError
