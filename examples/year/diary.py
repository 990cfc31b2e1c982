"""Runs commands, and keeps each with its output, its time and what the account says afterwards."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import Final, TypeVar

from examples.year.account import Account
from examples.year.places import Places

__all__ = ["Diary", "run_steps"]

_Days = TypeVar("_Days")

_BORDERS: Final = "┏┡└┌┗├"
_RULES: Final = "│┃ "
_COLUMN: Final = "│"

_STATE: Final = "diary.json"
_MOST_LINES: Final = 14
_MOST_CHARS: Final = 160


@dataclass
class Diary:
    """What was done with the data set of a year.

    Attributes:
        head: Heading and introduction, in Markdown.
        places: The places of the year.
        account: The producer's account.
        done: Names of the steps that are done.
        readable: Interval → generation that readers should get now; None if nobody keeps count.
        faults: What was not as it should be.
    """

    head: str
    places: Places
    account: Account
    done: list[str] = field(default_factory=list)
    readable: dict[str, str] | None = None
    faults: list[str] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _seconds: float = 0.0

    def text(self) -> str:
        """Return the diary in Markdown."""
        took = f"{self._seconds // 60:.0f} minutes and {self._seconds % 60:.0f} seconds"
        made = f"\nMade on {datetime.now(UTC):%Y-%m-%d}; commands and account took {took}.\n"
        return self.head + made + "\n".join(self._lines).rstrip() + "\n"

    def save(self) -> None:
        """Keep the diary beside the places."""
        state = {
            "lines": self._lines,
            "faults": self.faults,
            "first_code": self.account.first_code,
            "done": self.done,
            "readable": self.readable,
            "seconds": self._seconds,
        }
        (self.places.folder / _STATE).write_text(json.dumps(state))

    @classmethod
    def of(cls, head: str, places: Places, account: Account) -> Diary:
        """Return the diary that ``save`` kept beside the places, or a new one."""
        if not (places.folder / _STATE).exists():
            return cls(head, places, account)
        state = json.loads((places.folder / _STATE).read_text())
        account.first_code = state["first_code"]
        return cls(
            head, places, account, state["done"], state["readable"], state["faults"],
            state["lines"], state["seconds"],
        )  # fmt: skip

    def step(self, title: str, what: str) -> None:
        """Begin a step.

        Args:
            title: Heading.
            what: What happens, in sentences.
        """
        self.tell(f"\n## {title}\n", what, "")

    def run(
        self,
        *command: str,
        lines: int = _MOST_LINES,
        status: int | None = None,
        datasets: Path | None = None,
    ) -> str:
        """Run a command of trainfeed; return its output.

        Args:
            *command: Its arguments.
            lines: Number of lines of its output that the diary keeps.
            status: The exit status that it should have; None if any may be.
            datasets: The folder of data sets; by default that of the places.
        """
        return self._run("trainfeed", command, lines, status, datasets)

    def build(self, *ranges: str, status: int | None = None) -> str:
        """Build ranges of days in one process; return what it says."""
        return self._run("examples.year.builds", ranges, _MOST_LINES, status)

    def read(self, name: str, chosen: Mapping[str, str]) -> None:
        """Read all samples as a training does, and hold them against the account.

        Args:
            name: What to open, such as ``flights@prod``.
            chosen: Interval → generation that this should be.
        """
        output = self._run("examples.year.reading", [name], _MOST_LINES, 0)
        samples, ones = self.account.samples(self.places.versions, chosen)
        meant = f"{len(chosen)} versions, {samples} samples, {ones} of them with label 1"
        self.require(f"{name} is the account's: {meant}", holds=output.strip().endswith(meant))

    def _run(
        self,
        module: str,
        command: Sequence[str],
        lines: int,
        status: int | None,
        datasets: Path | None = None,
    ) -> str:
        begun = time.perf_counter()
        environ = {} if datasets is None else {"TRAINFEED_DATASETS": str(datasets)}
        ended = subprocess.run(
            [sys.executable, "-m", module, *command],
            env={**self.places.environ(), **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - begun
        self._seconds += seconds
        program = module if module == "trainfeed" else f"python -m {module}"
        before = "".join(f"{name}={self._short(value)} " for name, value in environ.items())
        told = f"{before}{program} {shlex.join(command)}"
        output = self._shortened([*ended.stdout.splitlines(), *ended.stderr.splitlines()], lines)
        self.tell("```", f"$ {told}", *output, "```")
        self.tell(f"Status {ended.returncode}, {seconds:.1f} s.", "")
        if status not in {None, ended.returncode}:
            self.require(f"{told} ends with status {status}", holds=False)
        return ended.stdout

    def check(self, *, damaged: Sequence[str] = ()) -> None:
        """Hold all versions for readers against the account.

        Args:
            damaged: Versions that are damaged on purpose.
        """
        begun = time.perf_counter()
        found = self.account.check(self.places.versions, self.readable)
        seconds = time.perf_counter() - begun
        self._seconds += seconds
        exactly = ""
        if self.readable is not None and not found.others:
            exactly = "; readers get exactly the versions that they should"
        self.tell(f"**The account, {seconds:.0f} s:** {found}{exactly}.", "")
        wrong = found.lost or found.doubled or found.wrong or found.others
        if wrong or found.damaged != tuple(damaged):
            self.faults.append(str(found))

    def require(self, what: str, *, holds: bool) -> None:
        """Tell a fact that has to hold; it is a fault if it does not."""
        self.tell(f"**{'Held' if holds else 'Not held'}:** {what}.", "")
        if not holds:
            self.faults.append(what)

    def tell(self, *lines: str) -> None:
        """Add lines of Markdown."""
        self._lines += lines
        print(*lines, sep="\n", flush=True)

    def _shortened(self, lines: list[str], most: int) -> list[str]:
        kept = [self._short(line) for line in lines if line and line[0] not in _BORDERS]
        head = most // 2
        if len(kept) > most:
            kept = [*kept[:head], f"… {len(kept) - most} lines …", *kept[head - most :]]
        return [part for line in kept for part in _fitted(line)]

    def _short(self, text: str) -> str:
        return text.replace(str(self.places.folder), "…")


def run_steps(diary: Diary, steps: Sequence[Callable[[Diary, _Days], None]], days: _Days) -> None:
    """Take steps in their order; those that the diary has are left out."""
    for step in steps:
        if step.__name__ not in diary.done:
            step(diary, days)
            diary.done.append(step.__name__)
            diary.save()


def _fitted(line: str) -> list[str]:
    """Return a row of a table, cut; or the lines of a message, all of it."""
    text = " ".join(line.split()).strip(_RULES)
    if _COLUMN in line:
        return [text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]} …"]
    return wrap(text, _MOST_CHARS, subsequent_indent="    ", break_on_hyphens=False)
