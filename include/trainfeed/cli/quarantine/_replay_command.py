"""``trainfeed quarantine replay``: the next generations of intervals with quarantined records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer

from trainfeed.cli._asked_intervals import Intervals, Json, Name, is_range, open_asked
from trainfeed.cli._printing import (
    print_json,
    print_message,
    print_rows,
)
from trainfeed.cli.build import (
    IntervalBuild,
    Training,
    build_each,
    build_one,
    declines,
    require_training,
    settle,
)
from trainfeed.cli.file import progress
from trainfeed.errors import ConfigError
from trainfeed.intervals import intervals_in, parse_range
from trainfeed.pipeline.local import BuildRequest

__all__ = ["replay"]

_FAILED: Final = 1
_ENDED: Final = 130
_ERROR_CHARS: Final = 200
_COLUMNS: Final = ("interval", "outcome", "generation", "samples", "quarantined", "note")
_COMMAND: Final = ("quarantine", "replay")


def replay(
    name: Name,
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
    as_json: Json = False,
) -> None:
    """Make the next generation of intervals with quarantined records, with the code of today.

    Every record of the interval is processed again, from the plan and the landing files of the
    last build: no broker is contacted. Log files that do not land must still be those of the plan.
    An interval without quarantined records is skipped; one that today's code would build as it is
    published is identical, so a second replay builds nothing. An interval that is not published is
    built. Status 0: done; 1: an interval failed; 2: wrong usage or settings; 130: ended.
    """
    spec, env, asked = open_asked(name, interval)
    require_training(spec, training)
    if why is not None and not why.strip():
        raise ConfigError(f"expected a reason for --why, got {why!r}; say why")
    chosen = intervals_in(spec.schedule_model(), parse_range(asked))
    names = [each.name for each in chosen]
    if not is_range(chosen, asked):
        untrained = declines(training, names, names[0])
        request = BuildRequest(rebuild=why, untrained=untrained, replay=True)
        build_one(spec, env, chosen[0], request, as_json=as_json)
        return

    def options(name: str) -> list[str]:
        said = [] if why is None else [f"--why={why}"]
        return [*said, *(["--training=none"] if declines(training, names, name) else [])]

    results, is_ended = _replay_each(spec.name, names, options, jobs)
    settle(spec, env, training, results)
    _report(results, is_ended=is_ended, as_json=as_json)


def _replay_each(
    name: str, names: Sequence[str], options: Callable[[str], Sequence[str]], jobs: int
) -> tuple[list[IntervalBuild], bool]:
    """Replay intervals as separate processes; return the results, and whether Ctrl-C ended them."""
    done = 0
    with progress(f"replaying {name}") as tell:

        def count(_: IntervalBuild) -> None:
            nonlocal done
            done += 1
            tell(len(names), done)

        tell(len(names), 0)
        return build_each(name, names, options, jobs=jobs, on_end=count, command=_COMMAND)


def _report(results: Sequence[IntervalBuild], *, is_ended: bool, as_json: bool) -> None:
    if as_json:
        print_json([each.to_json() for each in results])
    else:
        print_rows(_COLUMNS, [_row(each) for each in results])
    failed = sum(each.status != 0 for each in results)
    if failed:
        print_message(
            f"{failed} of {len(results)} intervals are not replayed; run again: what is replayed is"
            " found identical"
        )
        raise typer.Exit(_ENDED if is_ended else _FAILED)


def _row(result: IntervalBuild) -> list[object]:
    if result.status == 0:
        report = result.report
        return [result.interval, report["verdict"], *(report.get(c, "") for c in _COLUMNS[2:])]
    kind, message = result.error
    first = message.partition("\n")[0][:_ERROR_CHARS]
    return [result.interval, f"{kind}: {first}" if kind else first, "", "", "", ""]
