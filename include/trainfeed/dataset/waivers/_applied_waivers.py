"""Which waivers let failed gates of a plan pass: decided once, by the first ``check`` that does.

Every later attempt reads the decision. So two attempts write the same manifest, also when the time
of the waiver ends between them, or when another waiver is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainfeed.accounts import person
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.sealed_json import read_sealed, sealed, text_of
from trainfeed.dataset.waivers._gate_files import (
    MODE,
    Gate,
    applied_path,
    gate_facts,
    gates_of,
)
from trainfeed.dataset.waivers._waiver import Waiver
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import is_there
from trainfeed.specification import gate_name
from trainfeed.storage import posix

__all__ = ["Applied", "apply_waivers", "read_applied"]


@dataclass(frozen=True)
class Applied:
    """A waiver in use, as a manifest has it.

    Attributes:
        who: The person.
        account: The account or run that wrote the waiver.
        why: The reason.
        until: End of its time.
        at: Time of the decision.
        gates: The failed gates that it lets pass, each once in a manifest.
    """

    who: str
    account: str
    why: str
    until: str
    at: str
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
            KeyError: A key is missing.
            TypeError: A value is of another type.
        """
        names = ("who", "account", "why", "until", "at")
        return cls(**{name: text_of(value, name) for name in names}, gates=gates_of(value))

    @property
    def told(self) -> str:
        """The gates, who waived them, until when, and why; for messages."""
        gates = ", ".join(map(gate_name, self.gates))
        who = person(self.who, self.account)
        return f"{gates} waived by {who} until {self.until}: {self.why}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        return {**vars(self), "gates": list(self.gates)}


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
    value = {"plan": plan_id, "waivers": [waiver.to_json() for waiver in waivers]}
    posix.create_exclusive(path, sealed(value), mode=MODE)
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
    what = f"the waivers in use of plan {plan_id}"
    remedy = "nothing was published; move the file away; the next check decides again"
    try:
        return _parse(read_sealed(path, what, remedy), plan_id)
    except NotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        message = f"expected {what}: {error}; {remedy}"
        raise FormatError(message, path=str(path)) from error


def _parse(value: dict[str, Any], plan_id: str) -> tuple[Applied, ...]:
    if value["plan"] != plan_id:
        raise ValueError(f"got those of plan {value['plan']!r}")
    return tuple(map(Applied.from_json, value["waivers"]))
