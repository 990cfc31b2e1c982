"""A retirement: who removed all versions of an interval, when and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.accounts import person
from trainfeed.dataset.sealed_json import text_of
from trainfeed.intervals import parse_time

__all__ = ["Retirement"]

_TEXTS: Final = ("who", "account", "why", "at")


@dataclass(frozen=True)
class Retirement:
    """The end of an interval.

    Attributes:
        interval: Name of the interval.
        last_generation: The largest number that a generation of it had; later ones are larger.
        who: The person, or the run of a DAG.
        account: The account of the process.
        why: The reason of the person, or the rule, as ``keep_intervals_days: 400``.
        at: Time, UTC, as ``2026-03-08T00:00:00Z``.
        damage: Why the file cannot be read; None if it can. The interval is retired all the same.
        dataset: Name of the data set; None in a file of before.
    """

    interval: str
    last_generation: int
    who: str
    account: str
    why: str
    at: str
    damage: str | None = None
    dataset: str | None = field(default=None, compare=False, repr=False)

    @property
    def told(self) -> str:
        """Who, when and why, for messages."""
        if self.damage is not None:
            return f"{self.interval} was retired; who and why cannot be told: {self.damage}"
        who = person(self.who, self.account)
        return f"{self.interval} was retired at {self.at} by {who}: {self.why}"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Retirement:
        """Return the retirement of a file; keys that later versions add are ignored.

        Raises:
            KeyError, TypeError, ValueError, WindowError: It is something else.
        """
        texts = {name: text_of(value, name) for name in _TEXTS}
        parse_time(texts["at"])
        if type(value["last_generation"]) is not int:
            raise TypeError(f"last_generation: expected a number, got {value['last_generation']!r}")
        return cls(
            interval=text_of(value, "interval"),
            last_generation=value["last_generation"],
            dataset=value.get("dataset"),
            **texts,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        return {name: each for name, each in vars(self).items() if name != "damage"}
