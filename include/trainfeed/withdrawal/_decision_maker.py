"""Who withdraws or restores a generation, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainfeed.accounts import name_problem, reason_problem
from trainfeed.canonical_json import sha256_of
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.history import Action, record_action
from trainfeed.dataset.tag_files import Decision
from trainfeed.dataset.withdraw import Withdrawal
from trainfeed.errors import ConfigError

__all__ = ["Maker"]


@dataclass(frozen=True)
class Maker:
    """The person behind a decision.

    Attributes:
        who: The person; the name is not proved.
        account: The account, or the run of a scheduler, that acts for the person.
        why: The reason, 3 to 500 printable characters on one line.
        request: Names one run of a scheduler for ever; None for a command. Its decision is carried
            out once: a task that is cleared finds it done, also if other people have decided since.
    """

    who: str
    account: str
    why: str
    request: str | None = None

    @property
    def digest(self) -> str:
        """Digest of the decision, 16 hex digits."""
        request = [] if self.request is None else [self.request]
        return sha256_of([self.who, self.account, self.why.strip(), *request])[:16]

    def require_complete(self) -> None:
        """Refuse a decision without a reason or a name.

        Raises:
            ConfigError: One of them is missing, or too long.
        """
        problems = (
            reason_problem(self.why),
            name_problem("who", self.who),
            name_problem("account", self.account),
        )
        for problem in filter(None, problems):
            raise ConfigError(f"{problem}; nothing was changed")

    def has_written(self, mark: Withdrawal) -> bool:
        """Return whether this very decision, tried before, has written a mark."""
        mine = (self.who, self.account, self.why.strip(), self.request)
        return (mark.who, mark.account, mark.why, mark.request) == mine

    def decision(self) -> Decision:
        """Return the decision for the history of a tag that is moved."""
        return Decision.now(self.why, who=self.who, account=self.account)

    def record(
        self, folder: DatasetFolder, action: str, target: str, details: Mapping[str, Any]
    ) -> None:
        """Write the action into the history, before it begins.

        Raises:
            StorageError: The publication root refused or failed.
        """
        details = {"by": self.account, **details}
        record_action(
            folder, Action.now(action, target, why=self.why.strip(), who=self.who, details=details)
        )
