"""``trainfeed mirror`` copies versions, and the decisions about them, into another root."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trainfeed.cli.printing import Result, error_console, with_json
from trainfeed.cli.targets import IntervalsOrAll, RangeWord, Target
from trainfeed.core.config import copied_root
from trainfeed.errors import ConfigError
from trainfeed.upkeep.mirror import MirrorEnd, MirrorReport
from trainfeed.upkeep.mirror import mirror as mirror_root


@with_json
def mirror(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The root: a folder, pfs://… or s3://….")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The root that becomes its mirror, likewise.")
    ],
    name: IntervalsOrAll = None,
    asked: RangeWord = None,
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove versions that retention removed from FROM.")
    ] = False,
) -> Result:
    """Copy versions and decisions into another root.

    Versions appear whole, with the same bytes; a copy that was killed goes on. Marks of withdrawn
    versions, tags, skipped intervals and the schedule become those of FROM. FROM is only read, and
    nothing is removed from TO without --delete.
    """
    if asked is not None and name is None:
        raise ConfigError(f"expected a data set before the range {asked}; nothing was copied")
    wanted = None if name is None else Target.parse(name, asked).of_intervals()
    ends = [
        MirrorEnd.open(copied_root(word, text), word)
        for word, text in (("FROM", source), ("TO", target))
    ]
    with error_console().status("mirroring"):
        reports = list(
            mirror_root(
                *ends,
                dataset=None if wanted is None else wanted.name,
                asked=None if wanted is None else wanted.asked,
                deletes=delete,
            )
        )
    lines = [line for report in reports for line in _lines(report)]
    return Result([asdict(report) for report in reports], "\n".join(lines) or "no data set there")


def _lines(report: MirrorReport) -> list[str]:
    counts = f"{len(report.copied)} versions copied ({report.num_bytes:,} bytes)"
    counts += f", {report.known} were there; {report.decisions} files of decisions changed"
    removed = f"; {len(report.removed)} removed" if report.removed else ""
    return [
        f"{report.dataset}: {counts}{removed}",
        *(f"{report.dataset}/{each} stays: {why}" for each, why in report.in_use.items()),
        *(
            f"{report.dataset}@{tag} was left: it names versions outside of the range"
            for tag in report.tags_left
        ),
    ]
