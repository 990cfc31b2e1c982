"""The passes of a master in its state file: the current number, counters, accounts of ended passes.

Methods run inside of a transaction of the queue, which decides when a pass ends.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from trainfeed.dispatch._wire import PassReport

__all__ = ["PassRows"]

_COUNTERS: Final = ("leases", "timeouts", "failures", "returns", "ignored")


class PassRows:
    """The rows of the table ``passes``, and the number of the current pass.

    Args:
        db: The state file.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def current(self) -> int:
        """Return the current pass; the number of passes once all have ended."""
        return int(self._one("SELECT pass_number FROM master"))

    def end(self, report: PassReport) -> None:
        """Keep the account of the current pass, and count on to the next number."""
        number = report.pass_number
        self._db.execute(
            "UPDATE passes SET report = ? WHERE pass_number = ?",
            (report.model_dump_json(), number),
        )
        self._db.execute("UPDATE master SET pass_number = ?", (number + 1,))

    def begin(self, number: int) -> None:
        """Make the counters of a pass."""
        self._db.execute("INSERT INTO passes (pass_number) VALUES (?)", (number,))

    def count(self, counter: str, amount: int) -> None:
        """Add to a counter of the last pass that was begun."""
        if amount:
            self._db.execute(
                f"UPDATE passes SET {counter} = {counter} + ?"  # noqa: S608 (fixed names)
                " WHERE pass_number = (SELECT max(pass_number) FROM passes)",
                (amount,),
            )

    def counters(self, number: int) -> dict[str, int]:
        """Return the counters of a pass, by name."""
        names = ", ".join(_COUNTERS)
        row = self._db.execute(
            f"SELECT {names} FROM passes WHERE pass_number = ?",  # noqa: S608 (fixed names)
            (number,),
        ).fetchone()
        return dict(zip(_COUNTERS, row, strict=True))

    def report(self, number: int) -> PassReport:
        """Return the account of a pass that has ended."""
        text = self._one("SELECT report FROM passes WHERE pass_number = ?", number)
        # Reports that came after the last pass have no later pass to be counted in.
        ignored = self._one("SELECT ignored FROM passes WHERE pass_number = ?", number)
        return PassReport.model_validate_json(text).model_copy(update={"ignored": ignored})

    def last_reports(self, most: int) -> tuple[PassReport, ...]:
        """Return the accounts of the last passes that have ended, in order."""
        ended = self._db.execute(
            "SELECT pass_number FROM passes WHERE report != '' ORDER BY pass_number DESC LIMIT ?",
            (most,),
        ).fetchall()
        return tuple(self.report(number) for (number,) in reversed(ended))

    def _one(self, statement: str, *values: object) -> Any:
        return self._db.execute(statement, values).fetchone()[0]
