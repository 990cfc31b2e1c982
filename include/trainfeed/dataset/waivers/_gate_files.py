"""The files about failed gates, beside the plan: their names, and sealed JSON in them.

All three kinds lie beside ``<plan id>.json`` and begin with the plan's id. Each ends with its own
digest, so that a damaged file is never taken for a decision. Values of gates that are not published
may quote a record, so only the account that builds, and its group, may read the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder, check_name
from trainfeed.dataset.sealed_json import text_of
from trainfeed.paths import listed

__all__ = [
    "MODE",
    "Gate",
    "applied_path",
    "gate_facts",
    "gates_of",
    "is_same_gate",
    "refused_path",
    "waiver_numbers",
    "waiver_path",
]

Gate = Mapping[str, Any]

MODE: Final = 0o640

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


def gates_of(value: Mapping[str, Any]) -> tuple[Gate, ...]:
    """Return the member ``gates``: gates as a manifest has them, each with ``check`` and ``value``.

    Raises:
        TypeError: It is something else.
        KeyError: A key is missing.
    """
    gates = value["gates"]
    if not isinstance(gates, list) or not all(isinstance(gate, dict) for gate in gates):
        raise TypeError(f"gates: expected a list of gates, got {gates!r}")
    for gate in gates:
        text_of(gate, "check")
        _ = gate["value"]
    return tuple(gates)
