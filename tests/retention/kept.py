"""What a simulated year keeps between two parts: one file of JSON beside the project.

The file is replaced before and after every night. A night that was begun and not ended leaves the
storage between two nights, with which no model agrees; the year has to start again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tests.retention.expected import Newest, Reader
from tests.retention.measured import Night
from tests.retention.nights import Nights

__all__ = ["Kept", "NotGoingOnError", "code_digest"]

_REPOSITORY: Final = Path(__file__).parents[2]
_CODE: Final = ("include/trainfeed", "tests/retention")
_FILE: Final = "year.json"
_PLACES: Final = ("landing", "root")


class NotGoingOnError(Exception):
    """A year cannot go on: the message says why, and what to do."""


def code_digest() -> str:
    """Return the SHA-256 of the code that a night runs: the package, and the simulation."""
    found = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((_REPOSITORY / folder).rglob("*.py")):
            found.update(str(path.relative_to(_REPOSITORY)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


class Kept:
    """The file of a year.

    Args:
        folder: The folder of the year; the project is in it as well.
        asked: Number of nights, seed and places, which must be those of the first part.
    """

    def __init__(self, folder: Path, asked: Mapping[str, Any]) -> None:
        self._path, self._asked = folder / _FILE, dict(asked)
        self._codes: dict[str, int] = {}

    @property
    def is_there(self) -> bool:
        """Whether a part was played before."""
        return self._path.exists()

    def begin(self, nights: Nights, seen: list[Night], number: int) -> None:
        """Note that a night begins; also which code plays it."""
        self._codes.setdefault(code_digest(), number)
        self._write(nights, seen, number, is_whole=False)

    def end(self, nights: Nights, seen: list[Night], number: int) -> None:
        """Keep everything after a night."""
        self._write(nights, seen, number + 1, is_whole=True)

    def read(self, nights: Nights, seen: list[Night]) -> tuple[int, list[str]]:
        """Give a year what was kept; return the next night, and what is to be known about it.

        Raises:
            NotGoingOnError: The file is of another year, or a night was begun and not ended.
        """
        value = json.loads(self._path.read_text())
        remedy = f"remove {self._path.parent} to start a new year, or go on as before"
        for name, asked in self._asked.items():
            if value["asked"][name] != asked:
                message = f"{self._path}: {name} is {value['asked'][name]}, not {asked}; {remedy}"
                raise NotGoingOnError(message)
        if not value["is_whole"]:
            raise NotGoingOnError(
                f"{self._path}: night {value['next']} was begun and not ended, so the storage is"
                f" between two nights; remove {self._path.parent} to start a new year"
            )
        self._codes = value["codes"]
        _give_back(nights, value)
        seen.extend(Night(**each) for each in value["seen"])
        told = [f"code {digest[:12]} plays from night {n}" for digest, n in self._codes.items()]
        if (now := code_digest()) not in self._codes:
            told.append(f"the code has changed: {now[:12]} plays from night {value['next']}")
        return value["next"], told

    def _write(self, nights: Nights, seen: list[Night], number: int, *, is_whole: bool) -> None:
        value = {
            "asked": self._asked,
            "codes": self._codes,
            "next": number,
            "is_whole": is_whole,
            "seen": [asdict(each) for each in seen],
            **_taken(nights),
        }
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(value, default=datetime.isoformat))
        unfinished.replace(self._path)


def _taken(nights: Nights) -> dict[str, Any]:
    """Return what a year has in memory."""
    expected = nights.expected
    return {
        "removed": nights.removed,
        "random": nights.people.state,
        "counts": nights.people.counts,
        "sizes": nights.builders.sizes,
        "published_bytes": nights.builders.published_bytes,
        "landed": sorted(expected.landed),
        "published": {name: vars(each) for name, each in expected.published.items()},
        "views": expected.views,
        "waiting": expected.waiting,
        "refused": expected.refused,
        "compared": expected.compared,
        "tags": expected.tags,
        "readers": [_of_reader(each) for each in expected.readers],
        "trainings": list(expected.trainings.items()),
    }


def _of_reader(reader: Reader) -> dict[str, Any]:
    versions = list(reader.held.lease.versions)
    return {**{k: v for k, v in vars(reader).items() if k != "held"}, "versions": versions}


def _give_back(nights: Nights, value: Mapping[str, Any]) -> None:
    expected = nights.expected
    nights.go_on_after(value["next"] - 1)
    nights.removed = value["removed"]
    nights.people.go_on(value["random"], value["counts"])
    nights.builders.sizes = value["sizes"]
    nights.builders.published_bytes = value["published_bytes"]
    expected.landed = set(value["landed"])
    expected.published = {name: _newest(each) for name, each in value["published"].items()}
    expected.views = _times(value["views"])
    expected.waiting = value["waiting"]
    expected.refused = _times(value["refused"])
    expected.compared = {name: _versions(each) for name, each in value["compared"].items()}
    expected.tags = {tag: (n, (name, g)) for tag, (n, (name, g)) in value["tags"].items()}
    expected.trainings = {number: _versions(each) for number, each in value["trainings"]}
    for each in value["readers"]:
        ends = datetime.fromisoformat(each["ends"])
        nights.people.hold_again(
            _versions(each["versions"]), each["until"], ends, is_killed=each["is_killed"]
        )


def _newest(value: Mapping[str, Any]) -> Newest:
    withdrawn = value["withdrawn"] and datetime.fromisoformat(value["withdrawn"])
    return Newest(value["generation"], datetime.fromisoformat(value["at"]), withdrawn)


def _times(value: Mapping[str, str]) -> dict[str, datetime]:
    return {name: datetime.fromisoformat(each) for name, each in value.items()}


def _versions(value: list[list[Any]]) -> list[tuple[str, int]]:
    return [(name, generation) for name, generation in value]
