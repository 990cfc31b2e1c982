"""How the generators of this folder write pages, and say with ``--check`` which are stale."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["anchor", "cell", "write_or_check"]

_DOCS: Final = Path(__file__).resolve().parent


def write_or_check(documents: Mapping[str, str], arguments: Sequence[str]) -> None:
    """Write pages by their name in docs/; with ``--check`` end with 1 where one is stale."""
    stale = [name for name, text in documents.items() if _read(_DOCS / name) != text]
    for name in stale:
        if "--check" in arguments:
            print(f"docs/{name} is stale: run make docs")
        else:
            (_DOCS / name).write_text(documents[name], encoding="utf-8")
            print(f"wrote docs/{name}")
    if stale and "--check" in arguments:
        sys.exit(1)


def cell(text: str) -> str:
    """Return a text as a cell of a table: one line, no bar that would end it."""
    return " ".join(text.split()).replace("|", "\\|")


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as the site and GitHub make it."""
    words = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"\s", "-", words)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
