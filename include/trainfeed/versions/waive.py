"""Waivers: decisions of people that a build may be published although gates of it failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.core.accounts import Decided
from trainfeed.core.intervals import parse_time
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.files import is_there, listed
from trainfeed.files.records import RecordFile, Time, record_of
from trainfeed.specification import gate_name
from trainfeed.versions.layout import DatasetFolder, check_name

# --- The files about failed gates, beside the plan: their names, and sealed JSON in them

Gate = Mapping[str, Any]

MODE: Final = 0o640
_MAX_BYTES: Final = 1 << 20

_WORDS: Final = frozenset({"allowed", "because"})
_CHANGES: Final = "changes"

_WAIVER: Final = re.compile(r"\.waiver-([0-9]{4,8})\.json")


def gate_facts(gate: Gate) -> dict[str, Any]:
    """Return what a decision about a gate holds for: all but the words, which releases reword."""
    return {name: each for name, each in gate.items() if name not in _WORDS}


def is_same_gate(one: Gate, other: Gate) -> bool:
    """Return whether two entries are about one gate, with the same limits and the same value.

    Where one of them is of an earlier release, whose entries named changes of a schema in words
    only, the words are compared.
    """
    if (_CHANGES in one) != (_CHANGES in other):
        plain = ({name: each for name, each in g.items() if name != _CHANGES} for g in (one, other))
        return next(plain) == next(plain)
    return gate_facts(one) == gate_facts(other)


def refused_path(folder: DatasetFolder, interval: str, plan_id: str) -> Path:
    """The file with the failed gates of a plan, as ``check`` measured them."""
    return folder.plans(interval) / f"{check_name(plan_id)}.refused.json"


def waiver_path(folder: DatasetFolder, interval: str, plan_id: str, number: int) -> Path:
    """The file of a waiver of a plan; numbers begin with 1."""
    return folder.plans(interval) / f"{check_name(plan_id)}.waiver-{number:04d}.json"


def applied_path(
    folder: DatasetFolder, interval: str, plan_id: str, gates: Sequence[Mapping[str, Any]]
) -> Path:
    """The file that says which waivers let these failed gates of a plan pass."""
    digest = canonical_json.sha256_of(list(gates))[:16]
    return folder.plans(interval) / f"{check_name(plan_id)}.waived-{digest}.json"


def waiver_numbers(folder: DatasetFolder, interval: str, plan_id: str) -> list[int]:
    """Return the numbers of the waivers of a plan, ascending.

    Raises:
        StorageError: The publication root refused or failed.
    """
    names = (path.name for path in listed(folder.plans(interval), f"{check_name(plan_id)}.*"))
    found = (_WAIVER.fullmatch(name.removeprefix(plan_id)) for name in names)
    return sorted(int(match[1]) for match in found if match)


def _require_gates(record: Waiver | Applied | Refused) -> None:
    for gate in record.gates:
        if not isinstance(gate["check"], str):
            raise TypeError(f"check: expected text, got {gate['check']!r}")
        _ = gate["value"]


# --- A waiver: who lets failed gates of one plan pass, why


@dataclass(frozen=True)
class Waiver(Decided):
    """The decision of a person about failed gates of one plan.

    Attributes:
        plan: Id of the plan.
        until: The last moment at which ``check`` lets the plan pass: ``2026-03-08T00:00:00Z``.
        gates: The gates, with the values that the person saw, as a manifest has them.
    """

    plan: str
    until: Time
    gates: tuple[Gate, ...]

    @property
    def told(self) -> str:
        """Who, why and until when, for messages."""
        return f"{self.by} until {self.until}: {self.why}"

    def holds_at(self, now: datetime) -> bool:
        """Return whether the waiver lets gates pass at the aware time ``now``."""
        return now <= parse_time(self.until)

    def covers(self, gate: Gate) -> bool:
        """Return whether the waiver is about a gate with exactly this limit and value."""
        return any(is_same_gate(gate, mine) for mine in self.gates)


_WAIVER_FILE: Final = RecordFile(
    Waiver,
    "a waiver of the plan",
    "nothing was published; look who could write there, move the file away, and waive again",
    mode=MODE,
    max_bytes=_MAX_BYTES,
    check=_require_gates,
)


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
    if not _WAIVER_FILE.write_once(path, waiver):
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
    if (found := _WAIVER_FILE.read(path, plan=plan_id)) is None:
        raise NotFoundError(f"{path}: there is no such waiver")
    return found


# --- Which waivers let failed gates of a plan pass: decided once, by the first ``check`` that does


@dataclass(frozen=True)
class Applied(Decided):
    """A waiver in use, as a manifest has it, whose times are not read again.

    Attributes:
        until: End of its time.
        gates: The failed gates that it lets pass, each once in a manifest.
    """

    at: str
    until: str
    gates: tuple[Gate, ...]

    @classmethod
    def of(cls, waiver: Waiver, gates: Sequence[Gate]) -> Applied:
        """Return a waiver in use for some of its gates."""
        names = ("who", "account", "why", "until", "at")
        return cls(**{name: getattr(waiver, name) for name in names}, gates=tuple(gates))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Applied:
        """Read the JSON of ``to_json``.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        applied = record_of(cls, value)
        _require_gates(applied)
        return applied

    @property
    def told(self) -> str:
        """The gates, who waived them, until when, and why; for messages."""
        gates = ", ".join(map(gate_name, self.gates))
        return f"{gates} waived by {self.by} until {self.until}: {self.why}"


@dataclass(frozen=True)
class _Decided:
    """The waivers in use for some failed gates of a plan."""

    plan: str
    waivers: tuple[Applied, ...]


def _require_all_gates(decided: _Decided) -> None:
    for applied in decided.waivers:
        _require_gates(applied)


_DECIDED_FILE: Final = RecordFile(
    _Decided,
    "the waivers in use of the plan",
    "nothing was published; move the file away; the next check decides again",
    mode=MODE,
    max_bytes=_MAX_BYTES,
    check=_require_all_gates,
)


def apply_waivers(
    folder: DatasetFolder,
    interval: str,
    plan_id: str,
    gates: Sequence[Gate],
    waivers: Sequence[Applied],
) -> tuple[Applied, ...]:
    """Decide which waivers let the failed gates of a plan pass, or adopt the decision.

    Args:
        folder: The data set.
        interval: Name of the interval.
        plan_id: The plan.
        gates: Its failed gates that block or ask.
        waivers: The waivers of this attempt.

    Returns:
        The waivers of the first attempt.

    Raises:
        FormatError: The earlier decision is damaged.
        StorageError: The publication root refused or failed. Nothing was decided.
    """
    path = applied_path(folder, interval, plan_id, list(map(gate_facts, gates)))
    _DECIDED_FILE.write_once(path, _Decided(plan_id, tuple(waivers)))
    return read_applied(folder, interval, plan_id, gates) or ()


def read_applied(
    folder: DatasetFolder, interval: str, plan_id: str, gates: Sequence[Gate]
) -> tuple[Applied, ...] | None:
    """Return the waivers that let these failed gates of a plan pass, or None.

    Raises:
        FormatError: The decision is damaged.
        StorageError: The publication root refused or failed.
    """
    path = applied_path(folder, interval, plan_id, list(map(gate_facts, gates)))
    # Earlier releases named the decision by the gates with their words.
    if not is_there(path) and is_there(earlier := applied_path(folder, interval, plan_id, gates)):
        path = earlier
    found = _DECIDED_FILE.read(path, plan=plan_id)
    return None if found is None else found.waivers


# --- The failed gates of a plan, with their values: what a person sees before waiving them


@dataclass(frozen=True)
class Refused:
    """The gates for which ``check`` did not let a plan pass.

    Attributes:
        plan: Id of the plan.
        plan_sha256: Digest of the plan file at that time; gates of a plan may change.
        gates: The failed gates that block or ask, as a manifest has them.
        lines: One line for each: value, limit, and the counts behind the value.
    """

    plan: str
    plan_sha256: str
    gates: tuple[Gate, ...]
    lines: tuple[str, ...]


_REFUSED_FILE: Final = RecordFile(
    Refused,
    "the failed gates of the plan",
    "nothing was changed; build the interval again, which measures them again",
    mode=MODE,
    max_bytes=_MAX_BYTES,
    check=_require_gates,
)


def write_refused(folder: DatasetFolder, interval: str, refused: Refused) -> None:
    """Record the failed gates of a plan, in place of an older record; a function of the plan.

    Raises:
        StorageError: The publication root refused or failed. The record is the old one, or absent.
    """
    _REFUSED_FILE.replace(refused_path(folder, interval, refused.plan), refused)


def read_refused(folder: DatasetFolder, interval: str, plan_id: str) -> Refused | None:
    """Return the failed gates of a plan, or None while no ``check`` refused the plan.

    Raises:
        FormatError: The record is damaged.
        StorageError: The publication root refused or failed.
    """
    return _REFUSED_FILE.read(refused_path(folder, interval, plan_id), plan=plan_id)


def lift_refused(folder: DatasetFolder, interval: str, plan_id: str) -> None:
    """Remove the record of a plan, if there is one: its work files are not to be used again.

    Raises:
        StorageError: The publication root refused or failed.
    """
    _REFUSED_FILE.lift(refused_path(folder, interval, plan_id))
