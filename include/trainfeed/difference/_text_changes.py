"""The lines in which code and lookups differ, from the texts that are kept for each digest."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from trainfeed.dataset import DatasetFolder
from trainfeed.pipeline.plans import KeptCode, KeptLookup, kept_code, kept_lookup

__all__ = ["TextChange", "code_changes", "lookup_changes"]

_MOST_LINES: Final = 2_000
_MOST_CHARS: Final = 500
_OUTSIDE: Final = "the version lies outside of a publication root"


@dataclass(frozen=True)
class TextChange:
    """A file that differs.

    Attributes:
        name: Name of the file, or of the lookup.
        lines: Its unified difference, at most 2,000 lines of 500 characters.
        note: Why lines are missing; empty if none is.
    """

    name: str
    lines: tuple[str, ...]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return {"name": self.name, "lines": list(self.lines), "note": self.note}


def code_changes(
    folders: tuple[DatasetFolder | None, DatasetFolder | None], digests: tuple[str, str]
) -> list[TextChange]:
    """Return the changed files of the code of two digests; one entry with a note if not kept."""
    if digests[0] == digests[1]:
        return []
    first, second = (
        KeptCode(None, _OUTSIDE) if folder is None else kept_code(folder, digest)
        for folder, digest in zip(folders, digests, strict=True)
    )
    old, new = first.texts, second.texts
    if old is None or new is None:
        return [TextChange("code", (), first.why_not or second.why_not)]
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return [_change(name, old.get(name, ""), new.get(name, "")) for name in changed]


def lookup_changes(
    folders: tuple[DatasetFolder | None, DatasetFolder | None],
    old: Mapping[str, str],
    new: Mapping[str, str],
) -> list[TextChange]:
    """Return the changed lookups.

    Args:
        folders: The data sets of both versions.
        old: Name → SHA-256 of the lookups of the first.
        new: The same of the second.
    """
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return [_lookup(folders, name, old.get(name), new.get(name)) for name in names]


def _lookup(
    folders: tuple[DatasetFolder | None, DatasetFolder | None],
    name: str,
    old: str | None,
    new: str | None,
) -> TextChange:
    first, second = (
        _content(folder, digest) for folder, digest in zip(folders, (old, new), strict=True)
    )
    texts = [_text(each.data) for each in (first, second)]
    if first.data is None or second.data is None:
        return TextChange(name, (), first.why_not or second.why_not)
    if texts[0] is None or texts[1] is None:
        note = f"binary: {len(first.data)} → {len(second.data)} bytes"
        return TextChange(name, (), note)
    return _change(name, texts[0], texts[1])


def _content(folder: DatasetFolder | None, digest: str | None) -> KeptLookup:
    if digest is None:
        return KeptLookup(b"")
    if folder is None:
        return KeptLookup(None, _OUTSIDE)
    return kept_lookup(folder, digest)


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None or b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _change(name: str, old: str, new: str) -> TextChange:
    lines = _unified(name, old, new)
    shown = tuple(line[:_MOST_CHARS] for line in islice(lines, _MOST_LINES))
    more = sum(1 for _ in lines)
    return TextChange(name, shown, f"{more} more lines" if more else "")


def _unified(name: str, old: str, new: str) -> Iterator[str]:
    labels = (f"{name} (first)", f"{name} (second)")
    before, after = (text.splitlines() for text in (old, new))
    return difflib.unified_diff(before, after, *labels, n=2, lineterm="")
