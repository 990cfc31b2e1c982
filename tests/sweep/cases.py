"""Sampled damage at a stage of a root's life, and what the commands make of it."""

from __future__ import annotations

import os
import re
import string
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.sweep.commands import Answers, answers_of, area_of, published_in
from tests.sweep.exceptions import excepted_case
from tests.sweep.kinds import kind_of
from tests.sweep.project import Ended
from tests.sweep.root import STAGES, Life, files_of

__all__ = ["DAMAGES", "Case", "Outcome", "Sweep"]

# How answers say that something is wrong: every message of damage says what was expected.
_TOLD: Final = re.compile("expected |damage|differs|contradict|cannot|unreadable|[a-z]Error")


@dataclass(frozen=True)
class Case:
    """One damage.

    Attributes:
        seed: What everything else follows from.
        stage: The stage of the life at which it happens.
        kind: Kind of the file.
        name: The file.
        damage: The damage, a key of ``DAMAGES``.
        what: The damage in words.
    """

    seed: int
    stage: str
    kind: str
    name: str
    damage: str
    what: str

    def __str__(self) -> str:
        return f"{self.seed}: after {self.stage}, {self.damage} of {self.name} ({self.what})"


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        result: ``error``, ``told``, ``healed``, ``same``, ``noticed``, ``silent``, ``published``
            (other content without a word of the build), ``crash``, or ``excepted``.
        lines: The answers that differ, for people.
    """

    result: str
    lines: list[str] = field(default_factory=list)


class Sweep:
    """Plays cases on a life.

    Args:
        life: The life of a root.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self._files = {stage: _by_kind(life, stage) for stage in STAGES}
        self._usual = cache(self._answers)

    def draw(self, seed: int) -> Case:
        """Return the case of a seed, before it is played."""
        random = Random(seed)
        stage = random.choice(STAGES)
        kind = random.choice(sorted(self._files[stage]))
        name = random.choice(self._files[stage][kind])
        damage = random.choice(list(DAMAGES))
        return Case(seed, stage, kind, name, damage, "")

    def play(self, seed: int) -> tuple[Case, Outcome]:
        """Do the damage of a seed, run all commands, and compare with the undamaged root."""
        case = self.draw(seed)
        usual, published = self._usual(case.stage, area_of(case.name))
        project = self.life.again(case.stage)
        path = project.path / case.name
        peers = [project.path / each for each in self._files[case.stage][case.kind]]
        older = self.life.older[case.stage].get(case.name, [])
        tools = _Tools(Random(seed + 1), path, [each for each in peers if each != path], older)
        what = DAMAGES[case.damage](tools)
        case = Case(case.seed, case.stage, case.kind, case.name, case.damage, what)
        left = path.read_bytes() if path.exists() else None
        answers = answers_of(project, self.life.ended, area_of(case.name))
        outcome = _outcome(usual, answers, published, published_in(project))
        if outcome.result == "same" and left != (path.read_bytes() if path.exists() else None):
            outcome = Outcome("healed", outcome.lines)
        if outcome.result in {"silent", "published"} and excepted_case(case, outcome):
            outcome = Outcome("excepted", outcome.lines)
        return case, outcome

    def _answers(self, stage: str, area: str) -> tuple[Answers, dict[str, Any]]:
        project = self.life.again(stage)
        answers = answers_of(project, self.life.ended, area)
        return answers, published_in(project)


@dataclass
class _Tools:
    random: Random
    path: Path
    peers: list[Path]
    older: list[bytes]

    def put(self, path: Path, data: bytes) -> None:
        """Give a file another content; its time stays, as when a disk or a copy damages it."""
        found = path.stat()
        path.chmod(0o600)
        path.write_bytes(data)
        path.chmod(found.st_mode)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def _flip(tools: _Tools) -> str:
    data = bytearray(tools.path.read_bytes())
    if not data:
        return _remove(tools)
    at, bit = tools.random.randrange(len(data)), tools.random.randrange(8)
    data[at] ^= 1 << bit
    tools.put(tools.path, bytes(data))
    return f"bit {bit} of byte {at} of {len(data)}"


def _change(tools: _Tools) -> str:
    """Change a digit to another digit, or a letter to another letter."""
    data = bytearray(tools.path.read_bytes())
    classes = (string.digits.encode(), b"abcdef", string.ascii_lowercase.encode())
    places = [(n, chars) for n, byte in enumerate(data) for chars in classes if byte in chars]
    if not places:
        return _flip(tools)
    at, chars = tools.random.choice(places)
    old = data[at]
    data[at] = tools.random.choice([byte for byte in chars if byte != old])
    tools.put(tools.path, bytes(data))
    around = bytes(data[max(0, at - 15) : at + 8])
    return f"{chr(old)} to {chr(data[at])} at {at}: {around!r}"


def _cut(tools: _Tools) -> str:
    data = tools.path.read_bytes()
    length = tools.random.randrange(max(1, len(data)))
    tools.put(tools.path, data[:length])
    return f"{length} of {len(data)} bytes"


def _empty(tools: _Tools) -> str:
    tools.put(tools.path, b"")
    return "empty"


def _take_neighbours(tools: _Tools) -> str:
    if not tools.peers:
        return _flip(tools)
    other = tools.random.choice(tools.peers)
    tools.put(tools.path, other.read_bytes())
    return f"the content of {other.name} of {other.parent.name}"


def _exchange(tools: _Tools) -> str:
    if not tools.peers:
        return _change(tools)
    other = tools.random.choice(tools.peers)
    data = tools.path.read_bytes()
    tools.put(tools.path, other.read_bytes())
    tools.put(other, data)
    return f"with {other.name} of {other.parent.name}"


def _remove(tools: _Tools) -> str:
    found = tools.path.parent.stat()
    tools.path.unlink()
    os.utime(tools.path.parent, ns=(found.st_atime_ns, found.st_mtime_ns))
    return "removed"


def _put_older(tools: _Tools) -> str:
    if not tools.older:
        return _change(tools)
    tools.put(tools.path, tools.random.choice(tools.older))
    return "an older content"


DAMAGES: Final[dict[str, Callable[[_Tools], str]]] = {
    "flip": _flip,
    "change": _change,
    "cut": _cut,
    "emptying": _empty,
    "neighbour": _take_neighbours,
    "exchange": _exchange,
    "removal": _remove,
    "older": _put_older,
}


def _by_kind(life: Life, stage: str) -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, _ in files_of(life.again(stage)):
        found[kind_of(name)].append(name)
    return dict(found)


def _outcome(
    usual: Answers, answers: Answers, usually: dict[str, Any], published: dict[str, Any]
) -> Outcome:
    results = {name: _compared(usual[name], answer) for name, answer in answers.items()}
    lines = [
        f"{result}: {name}: {_shown(usual[name], answers[name], result)}"
        for name, result in results.items()
        if result != "same"
    ]
    others = [name for name, found in published.items() if found != usually.get(name, found)]
    for name in others:
        before, now = usually[name], published[name]
        parts = [part for part in now if now[part] != before[part]]
        lines.append(f"published otherwise: {name}: {', '.join(parts)}")
    # A build that does something else says so itself: other commands would tell too late.
    said = any(
        result in {"error", "told"} and " build " in name for name, result in results.items()
    )
    found = [result for result in results.values() if result != "same"]
    if "crash" in found:
        return Outcome("crash", lines)
    if others and not said:
        return Outcome("published", lines)
    if not found:
        return Outcome("same")
    if found[0] == "silent":
        # What differs after an error or a warning is its consequence.
        return Outcome("silent" if set(found) == {"silent"} else "noticed", lines)
    return Outcome("error" if "error" in found else "told", lines)


def _compared(usual: Ended, answer: Ended) -> str:
    if answer == usual:
        return "same"
    if answer.status is None:
        return "crash"
    if answer.status not in (usual.status, 0):
        return "error"
    if answer.messages != usual.messages and answer.messages:
        return "told"
    before = set(usual.out.splitlines())
    added = [line for line in answer.out.splitlines() if line not in before]
    return "told" if any(map(_TOLD.search, added)) else "silent"


def _shown(usual: Ended, answer: Ended, result: str) -> str:
    if result == "crash":
        return answer.messages[-600:]
    if result == "error":
        return (answer.messages or answer.out)[:300]
    if result == "told" and answer.messages:
        return answer.messages[:300]
    old, new = usual.out.splitlines(), answer.out.splitlines()
    lost = [line.strip() for line in old if line not in new][:3]
    added = [line.strip() for line in new if line not in old][:3]
    return f"{usual.status} → {answer.status}: {lost} → {added}"[:500]
