"""What a life must be like: what was alike in several recordings of one commit.

A word that was another one in one of the recordings may be any word: a time, an identity, a
digest of something with a time in it. Everything else must be as it was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

__all__ = ["differences", "learned"]

_ANY: Final = "§"
_WORDS: Final = re.compile(r"§|[A-Za-z0-9]+|[^A-Za-z0-9§]+")
# Of this year and the next ones; the data are of 2013 and 2024.
_TIMES: Final = re.compile(
    r"(?<![0-9A-Za-z])20(?:2[5-9]|[3-9][0-9])-?[01][0-9]-?[0-3][0-9](?:T[0-9:.]+Z?)?(?![0-9A-Za-z])"
)
# Alike in some recordings by chance: durations, sizes of what has durations in it, and clocks.
_CHANCE: Final = re.compile(
    r'("(?:seconds|inode|modified_ns|[a-z_]*_s|pid|bytes|time)": ?)(\{[^}]*\}|[0-9.e-]+)'
    r"|(seconds +│ )[^│\n]*|(process )[0-9]+|(│ +)[0-9]{3,}(?= +│)"
    r"|()(?<![0-9.])[0-9.]+ (?:s|ms|bytes|B|KiB)\b"
)
# How wide a column is hangs on the number of a process in it.
_BLANKS: Final = re.compile(r" +|-{3,}|─+|━+|\.{2,}")
Step = dict[str, Any]


def learned(recordings: list[list[Step]]) -> list[Step]:
    """Return what recordings of one commit have in common; other steps or files are an error."""
    if len({len(steps) for steps in recordings}) != 1:
        raise ValueError(f"{[len(steps) for steps in recordings]} steps")
    return [_common(list(steps)) for steps in zip(*recordings, strict=True)]


def differences(pattern: list[Step], steps: list[Step]) -> Iterator[str]:
    """Yield where a life is not as it must be."""
    for expected, found in zip_longest(pattern, steps):
        if expected is None or found is None or expected["step"] != found["step"]:
            yield (
                f"expected {expected and expected['step']}, got {found and found['step']};"
                " the rest was not compared"
            )
            return
        yield from _differences_of(expected, found)


def _common(steps: list[Step]) -> Step:
    first, *others = steps
    common: Step = {}
    for other in others:
        if other.keys() != first.keys() or other["files"].keys() != first["files"].keys():
            raise ValueError(f"{first['step']}: other files: {_unlike(first, other)}")
    for key in ("step", "status", "points"):
        if any(other.get(key) != first.get(key) for other in others):
            raise ValueError(f"{key}: {[step.get(key) for step in steps]}")
        if key in first:
            common[key] = first[key]
    for key in {"out", "messages"} & first.keys():
        common[key] = _common_text([step[key] for step in steps])
    common["files"] = {
        name: _common_text([step["files"][name] for step in steps])
        for name in sorted(first["files"])
    }
    return common


def _unlike(first: Step, other: Step) -> list[str]:
    return sorted(first["files"].keys() ^ other["files"].keys())


def _common_text(texts: list[str | None]) -> str | None:
    if None in texts:
        return None
    words = [_words(text) for text in texts]
    if len({len(each) for each in words}) != 1:
        raise ValueError("texts of several forms: " + "\n".join(map(repr, texts)))
    return "".join(each[0] if len(set(each)) == 1 else _ANY for each in zip(*words, strict=True))


def _words(text: str) -> list[str]:
    plain = _CHANCE.sub(_without_chance, _TIMES.sub(_ANY, text))
    return _WORDS.findall(_BLANKS.sub(lambda match: match[0][0], plain))


def _without_chance(match: re.Match[str]) -> str:
    before = next(filter(None, (match[1], *match.groups()[2:])), "")
    return f"{before}{_ANY}"


def _differences_of(expected: Step, found: Step) -> Iterator[str]:
    step = expected["step"]
    for key in ("status", "points"):
        if expected.get(key) != found.get(key):
            yield f"{step}: {key}: expected {expected.get(key)}, got {found.get(key)}"
    texts = {key: (expected[key], found[key]) for key in ("out", "messages") if key in expected}
    for name in expected["files"].keys() | found["files"].keys():
        was, now = expected["files"].get(name, ""), found["files"].get(name, "")
        texts[name] = (was, now)
    for name, (was, now) in sorted(texts.items()):
        if (was is None) != (now is None):
            yield f"{step}: {name}: {'not removed' if was is None else 'removed'}"
        elif was is not None and (place := _place(was, now)) is not None:
            yield f"{step}: {name}: {place}"


def _place(expected: str, found: str) -> str | None:
    """Return where a text departs from its pattern."""
    was = _WORDS.findall(_BLANKS.sub(lambda match: match[0][0], expected))
    now = _words(found)
    for number, (old, new) in enumerate(zip_longest(was, now, fillvalue="")):
        if old != new and not (old == _ANY and (new == _ANY or new.isalnum())):
            before = "".join(was[max(0, number - 12) : number])
            return (
                f"after {before!r}: expected {''.join(was[number : number + 12])!r},"
                f" got {''.join(now[number : number + 12])!r}"
            )
    return None
