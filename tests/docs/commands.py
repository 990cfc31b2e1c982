"""The commands of the documents: taken out of their fenced blocks, and run as they stand.

A block without a language, or with ``sh``, holds commands, one a line; where lines begin with
``$ ``, the others are what they print. A block of any language with ``title="path"`` is a file that
the reader makes, and is written in its turn. ``exceptions.yaml`` says which commands are not run,
or not waited for, and why.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from services._home import REPOSITORY

__all__ = [
    "Command",
    "Rule",
    "commands_of",
    "documents",
    "rule_for",
    "rules",
    "script",
    "services_of",
]

_FENCE = re.compile(r"^```(\S*)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r' title="([\w./-]+)"')
_START = "python -m services start "
_LANGUAGES = ("", "sh", "bash", "console")
_DOES = ("skip", "background")
_UNTIL_S = 600


@dataclass(frozen=True)
class Command:
    """One command of a document.

    Attributes:
        document: Path of the document in the repository.
        line: Number of its first line.
        text: What a shell is given, lines that go on included.
    """

    document: str
    line: int
    text: str


@dataclass(frozen=True)
class Rule:
    """What is done with a command instead of running it and waiting for its end.

    Attributes:
        document: Path of the document in the repository.
        command: How the command begins; ``*`` for all of the document.
        do: ``skip``, or ``background``: it is started, and ``until`` is tried until it succeeds.
        reason: Why.
        until: A command.
    """

    document: str
    command: str
    do: str
    reason: str
    until: str = ""

    def holds_for(self, command: Command) -> bool:
        """Whether it is about the command."""
        same = self.document == command.document
        return same and (self.command == "*" or command.text.startswith(self.command))


def documents() -> list[str]:
    """README.md and the pages of docs/, as paths in the repository."""
    pages = sorted((REPOSITORY / "docs").rglob("*.md"))
    return ["README.md", *(str(page.relative_to(REPOSITORY)) for page in pages)]


def commands_of(document: str) -> list[Command]:
    """The commands of a document, in its order."""
    text = (REPOSITORY / document).read_text()
    found = []
    for block in _FENCE.finditer(text):
        first = text.count("\n", 0, block.start(3)) + 1
        if title := _TITLE.search(block[2]):
            found.append(Command(document, first, _writing(title[1], block[3])))
        elif block[1] in _LANGUAGES:
            found += [Command(document, first + n, line) for n, line in _lines(block[3])]
    return found


def services_of(document: str) -> list[str]:
    """The services that the commands of a document start, in its order."""
    starts = [each.text for each in commands_of(document) if each.text.startswith(_START)]
    return [name for start in starts for name in start.removeprefix(_START).split()]


def rules() -> list[Rule]:
    """The exceptions, as they are written down."""
    written = YAML(typ="safe").load(Path(__file__).with_name("exceptions.yaml"))
    found = [Rule(document, **each) for document, rows in written.items() for each in rows]
    for rule in found:
        assert rule.do in _DOES, rule
        assert (rule.do == "background") == bool(rule.until), rule
    return found


def rule_for(command: Command) -> Rule | None:
    """The exception that is about the command, or None."""
    return next((rule for rule in rules() if rule.holds_for(command)), None)


def script(commands: list[Command]) -> str:
    """A program for bash that runs the commands in one shell and ends at the first that fails.

    It prints ``@@ document:line command`` before each; the output of one in the background is in
    ``background.log``.
    """
    parts = ["set -eo pipefail"]
    for command in commands:
        rule = rule_for(command)
        if rule is None or rule.do != "skip":
            first_line = command.text.partition("\n")[0]
            said = f"@@ {command.document}:{command.line} {first_line}"
            parts.append(f"printf '%s\\n' {shlex.quote(said)}")
            parts.append(command.text if rule is None else _background(command, rule))
    return "\n".join(parts) + "\n"


def _background(command: Command, rule: Rule) -> str:
    tried = f"if {rule.until} > until.log 2>&1; then break; fi"
    return (
        f"({command.text}\n) > background.log 2>&1 &\n"
        f"background=$!; deadline=$((SECONDS + {_UNTIL_S}))\n"
        f"while :; do {tried}; kill -0 $background; [ $SECONDS -lt $deadline ]; sleep 0.5; done"
    )


def _writing(path: str, text: str) -> str:
    """Return the command that writes a file as it stands in the document."""
    return f"mkdir -p {Path(path).parent} && cat > {path} <<'END OF FILE'\n{text}END OF FILE"


def _lines(block: str) -> list[tuple[int, str]]:
    """Return the commands of a block, and by how many lines each lies below the first."""
    is_dialogue = re.search(r"^\$ ", block, re.MULTILINE)
    found: list[tuple[int, str]] = []
    goes_on = False
    for number, line in enumerate(block.splitlines()):
        if goes_on:
            start, before = found[-1]
            found[-1] = start, f"{before}\n{line}"
        elif is_dialogue and not line.startswith("$ "):
            continue
        elif line.strip() and not line.startswith("#"):
            found.append((number, line.removeprefix("$ ")))
        goes_on = line.endswith("\\")
    return found
