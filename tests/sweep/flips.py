"""Every byte of every file flipped, and every length cut, through the readers of its kind."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.sweep.exceptions import excepted_reading
from tests.sweep.kinds import kind_of
from tests.sweep.readers import READERS, Place, read
from tests.sweep.root import Life, files_of
from trainfeed.errors import TrainFeedError

__all__ = ["damages", "flip_file", "swept_files"]

# How answers say that something is wrong: every message of damage says what was expected.
_TOLD: Final = re.compile("expected |damage|Refusal")
_CUT_BYTES: Final = 2 << 10
# Readers that write: a refusal, a receipt, an alias.
_WRITING: Final = frozenset({"upload", "gate of a job"})


def swept_files(life: Life, stage: str) -> list[tuple[str, str]]:
    """Return name and kind of the files of a stage that have readers."""
    named = [(name, kind_of(name)) for name, _ in files_of(life.again(stage))]
    return [(name, kind) for name, kind in named if kind in READERS]


def damages(data: bytes, step: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield damaged contents of a file: a bit of each ``step``-th byte, each length."""
    for at in range(0, len(data), step):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        yield f"bit {at % 8} of byte {at}", bytes(changed)
    if len(data) <= _CUT_BYTES:
        for length in range(0, len(data), step):
            yield f"cut to {length}", data[:length]


def flip_file(life: Life, stage: str, name: str, step: int = 1) -> tuple[Counter[str], list[str]]:
    """Damage one file in every way; return counts of outcomes, and a line for each fault."""
    kind = kind_of(name)
    place = Place(life.again(stage), name)
    counts: Counter[str] = Counter()
    lines = []
    data = place.path.read_bytes()
    with _warnings() as said:
        expected = _answer(place, kind)
        if expected.startswith("crash "):
            raise AssertionError(f"{name} cannot be read: {expected}")
        if expected.startswith("error "):
            # As the gate of a job whose model was removed: no answer depends on the file.
            return Counter(unread=1), []
        usual = len(said)
        for what, damaged in damages(data, step):
            said.clear()
            _put(place.path, damaged)
            answer = _answer(place, kind)
            outcome = _outcome(expected, answer, is_told=len(said) > usual)
            if outcome == "silent" and excepted_reading(kind):
                outcome = "excepted"
            counts[outcome] += 1
            if outcome in {"silent", "crash"}:
                lines.append(f"{outcome}: {name}: {what}: {_difference(expected, answer)}")
            if kind in _WRITING:
                life.again(stage)
        _put(place.path, data)
    return counts, lines


def _answer(place: Place, kind: str) -> str:
    try:
        return read(place, kind)
    except TrainFeedError as error:
        return f"error {type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - what no reader may raise is what is looked for
        return f"crash {type(error).__name__}: {error}"


def _outcome(expected: str, answer: str, *, is_told: bool) -> str:
    for outcome in ("error", "crash"):
        if answer.startswith(f"{outcome} "):
            return outcome
    if answer == expected:
        return "same"
    says = len(_TOLD.findall(answer)) > len(_TOLD.findall(expected))
    return "told" if is_told or says else "silent"


def _difference(expected: str, answer: str) -> str:
    if answer.startswith("crash "):
        return answer[:200]
    at = next(
        (n for n, pair in enumerate(zip(expected, answer, strict=False)) if len(set(pair)) > 1), 0
    )
    return f"{expected[max(0, at - 20) : at + 40]!r} → {answer[max(0, at - 20) : at + 40]!r}"


def _put(path: Path, data: bytes) -> None:
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(mode)


@contextmanager
def _warnings() -> Iterator[list[logging.LogRecord]]:
    """Collect the warnings of the library."""
    said: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = said.append  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield said
    finally:
        root.removeHandler(handler)
