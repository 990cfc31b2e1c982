"""Paragraphs of Python's manual, which every Python has, as words, and the list of the words.

The text is the module ``pydoc_data.topics``, one dictionary; it is parsed and not run. Its chapters
are about syntax, or about types and objects: the two labels. A paragraph that stands in several
chapters is taken once; in chapters of both labels, not at all.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import os_errors, read_plain
from trainfeed.publicsets.originals._found_originals import Originals

__all__ = ["manual_paragraphs"]

_MODULE: Final = Path("pydoc_data", "topics.py")
_MAX_BYTES: Final = 16 << 20
_WORD: Final = re.compile(r"[a-z_]+")
_MIN_WORDS: Final = 5
# Words that are in fewer places share the number of "<unk>".
_MIN_COUNT: Final = 3
_UNKNOWN: Final = "<unk>"
# The chapters of each label, separated by white space.
_CHAPTERS: Final[Mapping[str, str]] = {
    "0": """
        assert assignment async atom-identifiers atom-literals attribute-references augassign
        await binary bitwise booleans break calls class comparisons compound continue conversions
        del dynamic-features else exceptions execmodel exprlists floating for function global
        id-classes identifiers if imaginary import in integers lambda lists naming nonlocal numbers
        operator-summary pass power raise return shifting slicings strings subscriptions truth try
        unary while with yield
    """,
    "1": """
        attribute-access bltin-code-objects bltin-ellipsis-object bltin-null-object
        bltin-type-objects callable-types context-managers customization dict formatstrings
        numeric-types objects sequence-types specialattrs specialnames string-methods types
        typesfunctions typesmapping typesmethods typesmodules typesseq typesseq-mutable
    """,
}
_LABELS: Final = {label: frozenset(names.split()) for label, names in _CHAPTERS.items()}


def manual_paragraphs(folder: Path | None) -> Originals:
    """Return the paragraphs: a line ``label TAB words`` each; label 0 is syntax, 1 is types.

    Args:
        folder: Folder of a Python's standard library; None for the one of this Python.

    Raises:
        ConfigError: The folder has no manual.
        FormatError: The manual is not one dictionary of texts.
        StorageError: The file cannot be read.
    """
    home = Path(sysconfig.get_path("stdlib")) if folder is None else folder
    path = home / _MODULE
    with os_errors(path):
        is_there = path.is_file()
    if not is_there:
        raise ConfigError(
            f"expected Python's manual, {path} is not there; nothing was built; name the folder of"
            " a standard library with --from"
        )
    data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    chapters = _chapters(data, path)
    paragraphs, num_repeated = _labelled(chapters)
    lines = [f"{label}\t{' '.join(words)}".encode() for words, label in paragraphs.items()]
    source = {
        "package": "Python's standard library",
        "files": {_MODULE.as_posix(): hashlib.sha256(data).hexdigest()},
        "repeated_paragraphs_left_out": num_repeated,
        "chapters_left_out": sorted(set(chapters) - _LABELS["0"] - _LABELS["1"]),
    }
    return Originals(lambda: iter(lines), source, files={"words.csv": _word_list(paragraphs)})


def _chapters(data: bytes, path: Path) -> dict[str, str]:
    try:
        module = ast.parse(data)
        values = [ast.literal_eval(each.value) for each in module.body if type(each) is ast.Assign]
    except (SyntaxError, ValueError) as error:
        raise FormatError(f"expected texts by chapter: {error}", path=str(path)) from error
    match values:
        case [dict(chapters)] if all(isinstance(each, str) for each in chapters.values()):
            return chapters
    raise FormatError("expected one dictionary of texts by chapter", path=str(path))


def _labelled(chapters: Mapping[str, str]) -> tuple[dict[tuple[str, ...], str], int]:
    """Return words of a paragraph → label, in the order of chapters; and how many repeat others."""
    labels: dict[tuple[str, ...], set[str]] = {}
    num_found = 0
    for label, names in _LABELS.items():
        for name in sorted(names & chapters.keys()):
            for words in _paragraphs(chapters[name]):
                labels.setdefault(words, set()).add(label)
                num_found += 1
    kept = {words: min(found) for words, found in labels.items() if len(found) == 1}
    return kept, num_found - len(kept)


def _paragraphs(text: str) -> Iterator[tuple[str, ...]]:
    for paragraph in re.split(r"\n\s*\n", text):
        words = tuple(_WORD.findall(paragraph.lower()))
        if len(words) >= _MIN_WORDS:
            yield words


def _word_list(paragraphs: Mapping[tuple[str, ...], str]) -> bytes:
    """Return the words by descending count, then by name, and ``<unk>`` last, as a CSV file."""
    counts = Counter(word for words in paragraphs for word in words)
    kept = [word for word, count in counts.items() if count >= _MIN_COUNT]
    kept.sort(key=lambda word: (-counts[word], word))
    return "\n".join(["word", *kept, _UNKNOWN, ""]).encode()
