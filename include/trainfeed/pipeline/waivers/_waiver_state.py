"""The waivers of a data set with what became of each, for people who look through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.dataset.layout import MANIFEST, generation_of_plan
from trainfeed.dataset.waive import Waiver, read_waiver, waiver_numbers
from trainfeed.errors import AccessDeniedError, FormatError
from trainfeed.storage import posix

__all__ = ["UnreadWaiver", "WaiverState", "waiver_states"]

State = Literal["used", "holds", "over", "unused"]


@dataclass(frozen=True)
class WaiverState:
    """A waiver, and what became of it.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        number: Number among the waivers of its plan.
        state: ``used`` by a published version, ``unused`` if the plan's generation was published
            without it, ``holds``, or ``over``.
        generation: The published generation of the plan, or None.
        waiver: The waiver.
    """

    dataset: str
    interval: str
    number: int
    state: State
    generation: str | None
    waiver: Waiver

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        return {**vars(self), "waiver": self.waiver.to_json()}


@dataclass(frozen=True)
class UnreadWaiver:
    """A waiver that could not be read.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        plan: Id of the plan.
        number: Number among the waivers of the plan.
        error: ``FormatError`` for a damaged waiver or manifest of its version,
            ``AccessDeniedError`` for one that is closed to this account.
    """

    dataset: str
    interval: str
    plan: str
    number: int
    error: FormatError | AccessDeniedError

    @property
    def is_damaged(self) -> bool:
        """Whether a file is damaged."""
        return isinstance(self.error, FormatError)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        return {**vars(self), "error": str(self.error)}


def waiver_states(
    folder: DatasetFolder, now: datetime, interval: str | None = None
) -> Iterator[WaiverState | UnreadWaiver]:
    """Yield the waivers of a data set, or of one interval, by interval, plan and number.

    Args:
        folder: The data set.
        now: The aware time.
        interval: Name of the interval, or None for all.

    Raises:
        StorageError: The publication root refused or failed.
    """
    for name in folder.planned_intervals() if interval is None else [interval]:
        for plan_id in folder.plan_ids(name):
            for number in waiver_numbers(folder, name, plan_id):
                try:
                    waiver = read_waiver(folder, name, plan_id, number)
                    state, generation = _state(folder, name, waiver, now)
                except (FormatError, AccessDeniedError) as error:
                    yield UnreadWaiver(folder.name, name, plan_id, number, error)
                else:
                    yield WaiverState(folder.name, name, number, state, generation, waiver)


def _state(
    folder: DatasetFolder, interval: str, waiver: Waiver, now: datetime
) -> tuple[State, str | None]:
    path = folder.version(interval, generation_of_plan(waiver.plan))
    with posix.map_errors(path):
        is_published = (path / MANIFEST).is_file()
    if not is_published:
        return ("holds" if waiver.holds_at(now) else "over"), None
    manifest, _ = Manifest.read(path)
    mine = {"who": waiver.who, "why": waiver.why, "until": waiver.until, "at": waiver.at}
    is_used = manifest.plan == waiver.plan and any(
        mine == {name: each.get(name) for name in mine} for each in manifest.waivers
    )
    return ("used" if is_used else "unused"), path.name
