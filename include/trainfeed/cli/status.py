"""``trainfeed status``: which intervals are in, which are not and why, and up to when all are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from trainfeed.cli.arguments import known_folder, readable_environment
from trainfeed.cli.completion import specified
from trainfeed.cli.printing import Part, Result, Table, first_to_last, with_json
from trainfeed.cli.targets import IntervalsOrAll, RangeWord, Target
from trainfeed.core.config import Environment
from trainfeed.core.intervals import TimeRange
from trainfeed.errors import ConfigError, FormatError, StorageError, TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.look.status import (
    STATES,
    Attempts,
    DatasetStatus,
    IntervalStatus,
    as_text,
    dataset_status,
)
from trainfeed.versions import DatasetFolder, range_of
from trainfeed.versions.root import data_sets_of

_COLUMNS: Final = ("intervals", "state", "number", "since", "reason")
_SET_COLUMNS: Final = ("dataset", "complete up to", "held back by", "intervals", "reason")
_NOTHING: Final = "nothing is complete"


@with_json
def status(
    name: IntervalsOrAll = None,
    asked: RangeWord = None,
) -> Result:
    """Show what is published, what is missing, and why.

    Intervals in a row that are alike are one line; below it is the time up to which all are in.

    Status 0 when nothing is missing or failed, and of a RANGE, when it is in; 1 when not; 3 when a
    version is damaged.
    """
    env = readable_environment()
    attempts = Attempts(Location.parse(env.work), datetime.now(UTC))
    if name is None:
        return _of_all(env, attempts)
    target = Target.parse(name, asked).of_intervals()
    folder = known_folder(target.name)
    span = None if target.asked is None else range_of(folder, target.asked)
    found = _status_of(env, attempts, folder, span)
    doubts = [f"{folder.name}: {doubt}" for doubt in found.doubts]
    return Result(found.to_json(), _text(found), doubts, _exit_status([found], []))


def _text(found: DatasetStatus) -> Iterator[Part]:
    yield Table(_COLUMNS, _runs(found))
    yield _summary(found)


def _of_all(env: Environment, attempts: Attempts) -> Result:
    found: list[DatasetStatus] = []
    errors: dict[str, TrainFeedError] = {}
    for name in sorted({*specified(env), *data_sets_of(Path(env.root))}):
        try:
            found.append(_status_of(env, attempts, DatasetFolder(Path(env.root), name), None))
        except (ConfigError, FormatError, StorageError) as error:
            errors[name] = error
    failed = [{"dataset": name, "error": str(problem)} for name, problem in errors.items()]
    return Result(
        [*(_without_intervals(each) for each in found), *failed],
        Table(_SET_COLUMNS, map(_line, found)),
        [
            *(f"{name}: {type(error).__name__}: {error}" for name, error in errors.items()),
            *(f"{each.dataset}: {doubt}" for each in found for doubt in each.doubts),
        ],
        _exit_status(found, list(errors.values())),
    )


def _status_of(
    env: Environment, attempts: Attempts, folder: DatasetFolder, span: TimeRange | None
) -> DatasetStatus:
    return dataset_status(
        folder, datasets=env.datasets, attempts=attempts, now=datetime.now(UTC), span=span
    )


def _exit_status(found: list[DatasetStatus], errors: list[TrainFeedError]) -> int:
    """Return the status for monitors."""
    is_damaged = any(isinstance(error, FormatError) for error in errors)
    if is_damaged or any(each.is_damaged for each in found):
        return Result.DAMAGED
    return Result.FAILED if errors or not all(each.is_in_order for each in found) else 0


def _runs(found: DatasetStatus) -> Iterator[list[object]]:
    """Yield a line for each run of intervals with the same state, generation and reason."""
    for (state, generation, reason), run in groupby(found.intervals, _alike):
        each = list(run)
        again = f" (g{generation:04d})" if generation is not None and generation > 1 else ""
        yield [
            first_to_last(found.text_of(each[0].interval), found.text_of(each[-1].interval)),
            f"{state}{again}",
            len(each),
            as_text(max((one.since for one in each if one.since is not None), default=None)),
            reason,
        ]


def _alike(each: IntervalStatus) -> tuple[str, int | None, str]:
    return each.state, each.generation, each.reason


def _summary(found: DatasetStatus) -> str:
    complete = as_text(found.complete_up_to)
    first = _NOTHING if complete is None else f"complete up to {complete}"
    parts = [f"{found.dataset}: {first}"]
    if found.held_back_by is not None:
        parts.append(f"held back by {found.held_back_by.interval} ({found.held_back_by.state})")
    if found.decided_up_to != found.complete_up_to:
        parts.append(
            f"up to {as_text(found.decided_up_to)} with the losses that were decided to be accepted"
        )
    return "; ".join(parts)


def _line(found: DatasetStatus) -> list[object]:
    held = found.held_back_by
    counts = ", ".join(f"{n} {state}" for state in STATES if (n := found.counts.get(state)))
    return [
        found.dataset,
        as_text(found.complete_up_to) or _NOTHING,
        "" if held is None else f"{held.interval} ({held.state})",
        counts or "none",
        "" if held is None else held.reason,
    ]


def _without_intervals(found: DatasetStatus) -> dict[str, Any]:
    return {key: each for key, each in found.to_json().items() if key != "intervals"}
