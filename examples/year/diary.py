"""Runs commands, and keeps each with its output, its time and what the account says afterwards."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from examples.year.account import Account, Found
from examples.year.places import Places

__all__ = ["Diary"]

_BORDERS: Final = "┏┡└┌┗├"
_RULES: Final = "│┃ "

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
_STATE: Final = "diary.json"
_MOST_LINES: Final = 14
_MOST_CHARS: Final = 170


@dataclass
class Diary:
    """What was done with the data set of a year.

    Attributes:
        places: The places of the year.
        account: The producer's account.
        done: Names of the steps that are done.
    """

    places: Places
    account: Account
    done: list[str] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _found: list[Found] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether no event was lost, doubled or judged wrongly after any step."""
        return not any(found.lost or found.doubled or found.wrong for found in self._found)

    def text(self) -> str:
        """Return the diary in Markdown."""
        return _HEAD + "\n".join(self._lines).rstrip() + "\n"

    def save(self) -> None:
        """Keep the diary beside the places."""
        state = {
            "lines": self._lines,
            "found": [asdict(found) for found in self._found],
            "first_code": self.account.first_code,
            "done": self.done,
        }
        (self.places.folder / _STATE).write_text(json.dumps(state))

    @classmethod
    def of(cls, places: Places, account: Account) -> Diary:
        """Return the diary that ``save`` kept beside the places, or a new one."""
        if not (places.folder / _STATE).exists():
            return cls(places, account)
        state = json.loads((places.folder / _STATE).read_text())
        account.first_code = state["first_code"]
        found = [Found(**each) for each in state["found"]]
        return cls(places, account, state["done"], state["lines"], found)

    def step(self, title: str, what: str) -> None:
        """Begin a step.

        Args:
            title: Heading.
            what: What happens, in sentences.
        """
        self._tell(f"\n## {title}\n", what, "")

    def run(self, *command: str, lines: int = _MOST_LINES) -> int:
        """Run a command of trainfeed; return its exit status.

        Args:
            *command: Its arguments.
            lines: Number of lines of its output that the diary keeps.
        """
        return self._run("trainfeed", command, lines)

    def build(self, *ranges: str) -> int:
        """Build ranges of days in one process; return its exit status."""
        return self._run("examples.year.builds", ranges, _MOST_LINES)

    def _run(self, module: str, command: Sequence[str], lines: int) -> int:
        begun = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-m", module, *command],
            env=self.places.environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - begun
        output = self._shortened([*ended.stdout.splitlines(), *ended.stderr.splitlines()], lines)
        self._tell(
            "```",
            f"$ {'' if module == 'trainfeed' else 'python -m '}{module} {shlex.join(command)}",
            *output,
            "```",
            f"Status {ended.returncode}, {seconds:.1f} s.",
            "",
        )
        return ended.returncode

    def check(self) -> Found:
        """Hold all versions for readers against the account."""
        begun = time.perf_counter()
        found = self.account.check(self.places.versions)
        self._found.append(found)
        self._tell(f"**The account, {time.perf_counter() - begun:.0f} s:** {found}.", "")
        return found

    def _tell(self, *lines: str) -> None:
        self._lines += lines
        print(*lines, sep="\n", flush=True)

    def _shortened(self, lines: list[str], most: int) -> list[str]:
        place = str(self.places.folder)
        kept = [line.replace(place, "…") for line in lines if line and line[0] not in _BORDERS]
        cut = [_cut(" ".join(line.split()).strip(_RULES)) for line in kept]
        if len(cut) <= most:
            return cut
        head = most // 2
        return [*cut[:head], f"… {len(cut) - most} lines …", *cut[head - most :]]


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]} …"
