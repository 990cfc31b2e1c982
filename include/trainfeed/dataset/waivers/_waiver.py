"""A waiver: who lets failed gates of one plan pass, why, and until when; a file that never changes.

A waiver holds for the gates as they were measured, limit and value included. A plan may have
several, numbered from 1: for another gate, or after the time of an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trainfeed.accounts import person
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.sealed_json import read_sealed, sealed, text_of
from trainfeed.dataset.waivers._gate_files import (
    MODE,
    Gate,
    gates_of,
    is_same_gate,
    waiver_numbers,
    waiver_path,
)
from trainfeed.errors import ConflictError, FormatError, WindowError
from trainfeed.intervals import parse_time
from trainfeed.storage import posix

__all__ = ["Waiver", "read_waiver", "read_waivers", "waiver_numbers", "write_waiver"]

_TEXTS: Final = ("who", "account", "why", "until", "at")
_REMEDY: Final = (
    "nothing was published; look who could write there, move the file away, and waive again"
)


@dataclass(frozen=True)
class Waiver:
    """The decision of a person about failed gates of one plan.

    Attributes:
        plan: Id of the plan.
        who: The person.
        account: The account or run that wrote the file.
        why: The reason.
        until: The last moment at which ``check`` lets the plan pass: ``2026-03-08T00:00:00Z``.
        at: Time of the decision, in the same form.
        gates: The gates, with the values that the person saw, as a manifest has them.
    """

    plan: str
    who: str
    account: str
    why: str
    until: str
    at: str
    gates: tuple[Gate, ...]

    @property
    def told(self) -> str:
        """Who, why and until when, for messages."""
        return f"{person(self.who, self.account)} until {self.until}: {self.why}"

    def holds_at(self, now: datetime) -> bool:
        """Return whether the waiver lets gates pass at the aware time ``now``."""
        return now <= parse_time(self.until)

    def covers(self, gate: Gate) -> bool:
        """Return whether the waiver is about a gate with exactly this limit and value."""
        return any(is_same_gate(gate, mine) for mine in self.gates)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        return {**vars(self), "gates": list(self.gates)}


def write_waiver(folder: DatasetFolder, interval: str, waiver: Waiver, number: int) -> None:
    """Write a waiver, unless another one has its number.

    Args:
        folder: The data set.
        interval: Name of the interval.
        waiver: The waiver.
        number: Its number: one more than that of the last waiver that the person saw.

    Raises:
        ConflictError: Another person was faster; the message has who and why. Nothing was written.
        StorageError: The publication root refused or failed.
    """
    path = waiver_path(folder, interval, waiver.plan, number)
    if not posix.create_exclusive(path, sealed(waiver.to_json()), mode=MODE):
        first = read_waiver(folder, interval, waiver.plan, number)
        raise ConflictError(
            f"{path}: gates of {folder.name}/{interval} were waived meanwhile by {first.told};"
            " nothing was written; look at that waiver, and waive again if it is not enough"
        )


def read_waivers(folder: DatasetFolder, interval: str, plan_id: str) -> dict[int, Waiver]:
    """Return the waivers of a plan by number, ascending, also those whose time is over.

    Raises:
        FormatError: A waiver is damaged.
        StorageError: The publication root refused or failed.
    """
    numbers = waiver_numbers(folder, interval, plan_id)
    return {number: read_waiver(folder, interval, plan_id, number) for number in numbers}


def read_waiver(folder: DatasetFolder, interval: str, plan_id: str, number: int) -> Waiver:
    """Return one waiver of a plan.

    Raises:
        NotFoundError: There is none with this number.
        FormatError: It is damaged.
        StorageError: The publication root refused or failed.
    """
    path = waiver_path(folder, interval, plan_id, number)
    what = f"a waiver of plan {plan_id}"
    value = read_sealed(path, what, _REMEDY)
    try:
        return _parse(value, plan_id)
    except (KeyError, TypeError, ValueError, WindowError) as error:
        raise FormatError(f"expected {what}: {error}; {_REMEDY}", path=str(path)) from error


def _parse(value: dict[str, Any], plan_id: str) -> Waiver:
    if value["plan"] != plan_id:
        raise ValueError(f"got one of plan {value['plan']!r}")
    texts = {name: text_of(value, name) for name in _TEXTS}
    parse_time(texts["until"])
    parse_time(texts["at"])
    return Waiver(plan=plan_id, **texts, gates=gates_of(value))
