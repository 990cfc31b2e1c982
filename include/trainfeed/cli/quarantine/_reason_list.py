"""``trainfeed quarantine ls``: reasons with counts and positions; no value is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._printing import print_json, print_message, print_rows, printable_lines, program
from trainfeed.cli.quarantine._quarantine_targets import (
    PlanId,
    Target,
    Wanted,
    as_builds,
    as_one,
)
from trainfeed.pipeline.quarantine import Quarantine, QuarantinedPlace

__all__ = ["Json", "list_reasons", "origin_of", "title_of"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_MOST_EXAMPLES: Final = 3


@dataclass(frozen=True)
class _Listed:
    """The reasons of one build, the most frequent first, each with its first records."""

    quarantine: Quarantine
    reasons: dict[str, int]
    examples: dict[str, list[QuarantinedPlace]]

    @classmethod
    def of(cls, quarantine: Quarantine) -> _Listed:
        reasons = quarantine.reasons()
        return cls(quarantine, reasons, _examples(quarantine, reasons))

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "reason": reason,
                "records": count,
                "first": _as_json(self.examples[reason][0]),
                "examples": [_as_json(each) for each in self.examples[reason]],
            }
            for reason, count in self.reasons.items()
        ]
        records = sum(self.reasons.values())
        return {**origin_of(self.quarantine), "records": records, "reasons": rows}


def list_reasons(target: Target, *, plan: PlanId = None, as_json: Json = False) -> None:
    """Count quarantined records by reason, with the first positions of each.

    Values and messages, which often quote values, are not read: `show` has them, and is audited.

    Of an interval: those of its last build, published or not. Of a range, or of all intervals:
    those of all versions and failed builds that are there, the newest interval first.
    """
    wanted = Wanted.parse(target, plan)
    if wanted.is_one:
        _print_one(_Listed.of(as_one(wanted)), target, as_json=as_json)
    else:
        _print_all([_Listed.of(each) for each in as_builds(wanted)], as_json=as_json)


def origin_of(quarantine: Quarantine) -> dict[str, Any]:
    """Return the build of a quarantine as JSON."""
    return {
        "dataset": quarantine.dataset,
        "interval": quarantine.interval,
        "generation" if quarantine.is_published else "plan": quarantine.origin,
        "published": quarantine.is_published,
        "place": quarantine.place,
    }


def title_of(quarantine: Quarantine, reasons: dict[str, int]) -> str:
    """Return the line about a build that stands above its records."""
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "none"
    return (
        f"{quarantine.dataset}/{quarantine.interval} ({_state(quarantine)}): quarantined: {counts};"
        f" in {quarantine.place}"
    )


def _state(quarantine: Quarantine) -> str:
    if quarantine.is_published:
        return quarantine.origin
    return f"plan {quarantine.origin}, not published"


def _print_one(listed: _Listed, target: str, *, as_json: bool) -> None:
    if as_json:
        print_json(listed.to_json())
        return
    typer.echo(printable_lines(title_of(listed.quarantine, listed.reasons)))
    print_rows(("reason", "records", "first at"), list(_rows(listed)))
    if listed.reasons:
        first = next(iter(listed.reasons))
        print_message(
            f"their messages and bytes: {program()} quarantine show {target} --reason {first}"
        )


def _print_all(builds: Sequence[_Listed], *, as_json: bool) -> None:
    total: Counter[str] = Counter()
    for build in builds:
        total += Counter(build.reasons)
    reasons = dict(total.most_common())
    if as_json:
        told = [build.to_json() for build in builds]
        print_json({"records": total.total(), "reasons": reasons, "builds": told})
        return
    columns = ("interval", "build", "reason", "records", "first at")
    rows = [
        (build.quarantine.interval, _state(build.quarantine), *row)
        for build in builds
        for row in _rows(build)
    ]
    print_rows(columns, rows)
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "none"
    typer.echo(printable_lines(f"{len(builds)} builds; quarantined: {counts}"))


def _rows(listed: _Listed) -> Iterator[tuple[object, ...]]:
    for reason, count in listed.reasons.items():
        first = listed.examples[reason][0]
        yield reason, count, f"{first.source} offset {first.offset}"


def _examples(quarantine: Quarantine, reasons: dict[str, int]) -> dict[str, list[QuarantinedPlace]]:
    found: dict[str, list[QuarantinedPlace]] = {reason: [] for reason in reasons}
    missing = {reason: min(_MOST_EXAMPLES, count) for reason, count in reasons.items()}
    for place in quarantine.places() if missing else ():
        if place.reason in missing:
            found[place.reason].append(place)
            if len(found[place.reason]) == missing[place.reason]:
                del missing[place.reason]
        if not missing:
            break
    return found


def _as_json(place: QuarantinedPlace) -> dict[str, Any]:
    return {"source": place.source, "offset": place.offset, "reason": place.reason}
