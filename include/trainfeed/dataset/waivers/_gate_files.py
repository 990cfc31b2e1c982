"""The files about failed gates, beside the plan: their names, and sealed JSON in them.

All three kinds lie beside ``<plan id>.json`` and begin with the plan's id. Each ends with its own
digest, so that a damaged file is never taken for a decision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder, check_name
from trainfeed.errors import FormatError
from trainfeed.paths import listed, read_plain

__all__ = [
    "Gate",
    "applied_path",
    "gates_of",
    "read_sealed",
    "refused_path",
    "sealed",
    "text_of",
    "waiver_numbers",
    "waiver_path",
]

Gate = Mapping[str, Any]

# Room for thousands of gates; a longer file is none of these.
_MAX_BYTES: Final = 1 << 20
_WAIVER: Final = re.compile(r"\.waiver-([0-9]{4,8})\.json")


def refused_path(folder: DatasetFolder, interval: str, plan_id: str) -> Path:
    """The file with the failed gates of a plan, as ``check`` measured them."""
    return folder.plans(interval) / f"{check_name(plan_id)}.refused.json"


def waiver_path(folder: DatasetFolder, interval: str, plan_id: str, number: int) -> Path:
    """The file of a waiver of a plan; numbers begin with 1."""
    return folder.plans(interval) / f"{check_name(plan_id)}.waiver-{number:04d}.json"


def applied_path(folder: DatasetFolder, interval: str, plan_id: str, gates: list[Gate]) -> Path:
    """The file that says which waivers let these failed gates of a plan pass."""
    digest = canonical_json.sha256_of(gates)[:16]
    return folder.plans(interval) / f"{check_name(plan_id)}.waived-{digest}.json"


def waiver_numbers(folder: DatasetFolder, interval: str, plan_id: str) -> list[int]:
    """Return the numbers of the waivers of a plan, ascending.

    Raises:
        StorageError: The publication root refused or failed.
    """
    names = (path.name for path in listed(folder.plans(interval), f"{check_name(plan_id)}.*"))
    found = (_WAIVER.fullmatch(name.removeprefix(plan_id)) for name in names)
    return sorted(int(match[1]) for match in found if match)


def sealed(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file: canonical JSON that ends with its own digest."""
    return canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}"))


def read_sealed(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """Read a file of this room.

    Args:
        path: The file.
        what: What the file should be, for the message.
        remedy: What to do about a damaged file, likewise.

    Raises:
        NotFoundError: There is none.
        FormatError: The file is damaged, too large, or something else.
        StorageError: The publication root refused or failed.
    """
    data = read_plain(path, follow=False, max_bytes=_MAX_BYTES)
    try:
        canonical_json.require_intact(data, path=str(path))
        return dict(canonical_json.loads(data))
    except (FormatError, TypeError, ValueError) as error:
        raise FormatError(f"expected {what}: {error}; {remedy}", path=str(path)) from error


def text_of(value: Mapping[str, Any], name: str) -> str:
    """Return a member that is text.

    Raises:
        TypeError: It is something else.
        KeyError: It is missing.
    """
    if not isinstance(value[name], str):
        raise TypeError(f"{name}: expected text, got {value[name]!r}")
    return str(value[name])


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
