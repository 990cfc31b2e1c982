"""The failed gates of a plan, with their values: what a person sees before waiving them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.sealed_json import read_sealed, sealed, text_of
from trainfeed.dataset.waivers._gate_files import (
    MODE,
    Gate,
    gates_of,
    refused_path,
)
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.storage import posix

__all__ = ["Refused", "lift_refused", "read_refused", "write_refused"]


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

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        return {**vars(self), "gates": list(self.gates), "lines": list(self.lines)}


def write_refused(folder: DatasetFolder, interval: str, refused: Refused) -> None:
    """Record the failed gates of a plan, in place of an older record; a function of the plan.

    Raises:
        StorageError: The publication root refused or failed. The record is the old one, or absent.
    """
    with suppress(NotFoundError, FormatError):
        if read_refused(folder, interval, refused.plan) == refused:
            return
    path = refused_path(folder, interval, refused.plan)
    posix.replace_file(path, sealed(refused.to_json()), mode=MODE)


def read_refused(folder: DatasetFolder, interval: str, plan_id: str) -> Refused | None:
    """Return the failed gates of a plan, or None while no ``check`` refused the plan.

    Raises:
        FormatError: The record is damaged.
        StorageError: The publication root refused or failed.
    """
    path = refused_path(folder, interval, plan_id)
    what = f"the failed gates of plan {plan_id}"
    remedy = "nothing was changed; build the interval again, which measures them again"
    try:
        return _parse(read_sealed(path, what, remedy), plan_id)
    except NotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        message = f"expected {what}: {error}; {remedy}"
        raise FormatError(message, path=str(path)) from error


def lift_refused(folder: DatasetFolder, interval: str, plan_id: str) -> None:
    """Remove the record of a plan, if there is one: its work files are not to be used again.

    Raises:
        StorageError: The publication root refused or failed.
    """
    path = refused_path(folder, interval, plan_id)
    with posix.map_errors(path):
        path.unlink(missing_ok=True)


def _parse(value: dict[str, Any], plan_id: str) -> Refused:
    lines = value["lines"]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise TypeError(f"lines: expected texts, got {lines!r}")
    if value["plan"] != plan_id:
        raise ValueError(f"got those of plan {value['plan']!r}")
    return Refused(plan_id, text_of(value, "plan_sha256"), gates_of(value), tuple(lines))
