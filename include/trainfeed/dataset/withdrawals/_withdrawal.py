"""A withdrawal: who hid a generation from readers, why, when, and what the generation was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.accounts import person
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.sealed_json import text_of

__all__ = ["Withdrawal"]

_TEXTS: Final = ("dataset", "interval", "who", "account", "why", "at")
# What is known of the generation; None if its manifest could not be read.
_FACTS: Final = (
    "fingerprint", "content_digest", "manifest_sha256", "plan", "reason", "request",
)  # fmt: skip


@dataclass(frozen=True)
class Withdrawal:
    """The mark of a withdrawn generation.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        generation: Number of the generation.
        who: The person; "" if the mark is damaged.
        account: The account or run that wrote the mark; "" likewise.
        why: The reason; "" likewise.
        at: Time, UTC, as ``2026-03-08T00:00:00Z``; "" likewise.
        fingerprint: Fingerprint of the generation; None if neither mark nor manifest tells it.
        content_digest: Digest of its content, likewise.
        manifest_sha256: SHA-256 of its manifest, likewise.
        plan: Id of its plan, likewise.
        reason: The reason for which it was built, None if it was a plain build.
        request: The run of a scheduler that wrote the mark; None for a command.
        damage: Why the mark cannot be read as it was written; None if it can. The generation is
            withdrawn all the same.
        digest: SHA-256 of the bytes of the mark, in hex; "" until it is written.
        lifted_by: Digest of the decision that took the withdrawal back, "" if that is not known;
            None while the mark stands.
    """

    dataset: str
    interval: str
    generation: int
    who: str
    account: str
    why: str
    at: str
    fingerprint: str | None = None
    content_digest: str | None = None
    manifest_sha256: str | None = None
    plan: str | None = None
    reason: str | None = None
    request: str | None = None
    damage: str | None = field(default=None, kw_only=True)
    digest: str = field(default="", kw_only=True, compare=False)
    lifted_by: str | None = field(default=None, kw_only=True, compare=False)

    @property
    def name(self) -> str:
        """The generation: ``clicks/2024-03-01/g0001``."""
        return f"{self.dataset}/{self.interval}/{generation_name(self.generation)}"

    @property
    def told(self) -> str:
        """Which generation, who, when and why, for messages."""
        if self.damage is not None:
            state = "is withdrawn" if self.lifted_by is None else "was withdrawn and given back"
            return f"{self.name} {state}; who and why cannot be told: {self.damage}"
        who = person(self.who, self.account)
        return f"{self.name} was withdrawn by {who} at {self.at}: {self.why}"

    @classmethod
    def from_json(cls, value: Mapping[str, Any], digest: str) -> Withdrawal:
        """Return the withdrawal of a mark; keys that later versions add are ignored.

        Raises:
            KeyError, TypeError, ValueError, WindowError: It is something else.
        """
        # Not at the top: a list of data sets without a mark needs no calendar.
        from trainfeed.intervals import parse_time

        values: dict[str, Any] = {name: text_of(value, name) for name in _TEXTS}
        parse_time(values["at"])
        if type(value["generation"]) is not int:
            raise TypeError(f"generation: expected a number, got {value['generation']!r}")
        for name in _FACTS:
            values[name] = None if value.get(name) is None else text_of(value, name)
        return cls(generation=value["generation"], **values, digest=digest)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        return {name: each for name, each in vars(self).items() if name not in _DERIVED}


_DERIVED: Final = frozenset({"damage", "digest", "lifted_by"})
