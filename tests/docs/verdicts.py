"""What the builds of a page came to: a page that says that it builds is held to it.

A build of what is published already ends well, and reads nothing: its exit status proves no claim
of the page. The default verdict is therefore ``built``; ``EXPECTED`` has the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.docs.commands import Command, commands_of, rule_for

__all__ = ["EXPECTED", "builds_of", "require_verdicts", "verdicts_of"]

# Page and command → the verdicts that the page tells; none where the build is refused.
EXPECTED: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    (
        "docs/tutorials/kafka.md",
        "trainfeed build visits/2026-01-01/2026-01-03",
    ): frozenset({"identical"}),
    (
        "docs/tutorials/log-folders.md",
        "trainfeed build orders/2026-02-01/2026-02-05",
    ): frozenset({"built", "identical"}),
    (
        "docs/tutorials/log-folders.md",
        'trainfeed build orders --interval 2026-02-02 || echo "the folder was written again"',
    ): frozenset(),
    (
        "docs/tutorials/parquet-archive.md",
        'trainfeed build rides --interval 2026-03-01T03 || echo "part-1.parquet was cut"',
    ): frozenset(),
    (
        "docs/tutorials/parquet-archive.md",
        'trainfeed build ride_days/2026-03-01 || echo "21 of its 24 folders are not complete"',
    ): frozenset(),
    (
        "docs/tutorials/history-and-live.md",
        "trainfeed build rentals --interval 2026-02-01",
    ): frozenset({"identical"}),
    (
        "docs/tutorials/iceberg-table.md",
        'trainfeed build orders/2026-03-03 || echo "a snapshot deletes rows"',
    ): frozenset(),
    (
        "docs/guides/uploads.md",
        'trainfeed build visits --interval 2026-01-01 || echo "the version stays as it is"',
    ): frozenset(),
}
_BUILD: Final = "trainfeed build "
_LOOKS: Final = ("--dry-run", "--limit")
_VERDICT: Final = re.compile(r"│ (built|identical|kept|skipped) +│")


def builds_of(document: str) -> list[Command]:
    """Return the commands of a page that build, as they are run."""
    return [
        command
        for command in commands_of(document)
        if command.text.startswith(_BUILD)
        and rule_for(command) is None
        and not any(option in command.text for option in _LOOKS)
    ]


def verdicts_of(output: str) -> frozenset[str]:
    """Return the verdicts in the tables that builds have printed."""
    return frozenset(_VERDICT.findall(output))


def require_verdicts(document: str, output: str) -> None:
    """Hold what the builds of a page have printed against what the page tells.

    Args:
        document: The page.
        output: What ``script`` printed, with the line ``@@ document:line`` before each command.
    """
    printed = dict(_by_place(output))
    for command in builds_of(document):
        told = command.text.partition("  #")[0].rstrip()
        expected = EXPECTED.get((document, told), frozenset({"built"}))
        found = verdicts_of(printed[f"{document}:{command.line}"])
        assert found == expected, (f"{document}:{command.line}", command.text, found)


def _by_place(output: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"(?m)^@@ ", output)[1:]:
        place, _, printed = part.partition(" ")
        yield place, printed
