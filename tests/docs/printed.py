"""What the commands of a page print, taken out of its fenced blocks, and held against a run.

A block holds a dialogue: lines that begin with ``$ `` are commands, the others what they print. A
block without such lines is one command and its output, or, if every line is a command, commands
alone.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from dataclasses import dataclass

from services._home import REPOSITORY

__all__ = ["Printed", "alike", "printed_by", "require_same"]

_FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LANGUAGES = ("", "text")
_PROGRAM = "trainfeed "
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_DIGEST = re.compile(r"\b[0-9a-f]{12}\b")
# Pages were written by one account, and are read by another.
_WRITER = "root"


@dataclass(frozen=True)
class Printed:
    """A command of a page.

    Attributes:
        command: The line of the page.
        output: What the page says that it prints; "" if it says nothing.
    """

    command: str
    output: str


def printed_by(document: str) -> list[Printed]:
    """Return the commands of a page, in its order."""
    text = (REPOSITORY / document).read_text()
    blocks = [block for language, block in _FENCE.findall(text) if language in _LANGUAGES]
    return [each for block in blocks for each in _of_block(block.splitlines())]


def alike(text: str, account: str | None = None) -> str:
    """Return output without what differs from run to run: times, digests, and the account."""
    account = getpass.getuser() if account is None else account
    words = {
        rf"\({re.escape(account)}\)": "(ACCOUNT)",
        rf"\bby {re.escape(account)}\b": "by ACCOUNT",
    }
    text = _DIGEST.sub("DIGEST------", _TIME.sub("TIME", text))
    for word, name in words.items():
        text = re.sub(word, name, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def require_same(printed: Printed, run: Callable[[str], tuple[int, str]]) -> None:
    """Run a command, and hold what it prints against the page; one without output must succeed.

    Args:
        printed: The command.
        run: Runs a command line; returns its exit status, and all that it prints.
    """
    status, found = run(printed.command)
    if printed.output:
        assert alike(found) == alike(printed.output, _WRITER), printed.command
    else:
        assert status == 0, (printed.command, found)


def _of_block(lines: list[str]) -> list[Printed]:
    if any(line.startswith("$ ") for line in lines):
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        ends = [*starts[1:], len(lines)]
        return [
            Printed(lines[start].removeprefix("$ "), "\n".join(lines[start + 1 : end]))
            for start, end in zip(starts, ends, strict=True)
        ]
    if all(line.startswith(_PROGRAM) for line in lines):
        return [Printed(line, "") for line in lines]
    if lines and lines[0].startswith(_PROGRAM):
        return [Printed(lines[0], "\n".join(lines[1:]))]
    return []
