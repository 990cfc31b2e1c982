"""The intervals that should exist by now, and how long each is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from trainfeed.dataset import DatasetFolder, read_schedule
from trainfeed.errors import FormatError, SpecError
from trainfeed.intervals import Schedule
from trainfeed.specification import SPEC_FILE, DatasetSpec, MissingRule, load_spec

__all__ = ["Expected", "expected_of"]

_NO_TIME: Final = timedelta(0)


@dataclass(frozen=True)
class Expected:
    """The rules from which the expected intervals follow.

    Attributes:
        schedule: The schedule; None if it is not known.
        settle: Time after the end of an interval before which it is not planned.
        wait: How long after that runs wait for the source and for uploads; None if nothing is
            waited for.
        missing: What is decided about an interval that never came: ``fail``, ``empty`` or
            ``skip``, with the place in dataset.yaml if there are several; None without a policy.
        patience: How long after ``settle`` runs wait for anything else.
        doubt: Why the rules may be others; None if they are those of the specification.
    """

    schedule: Schedule | None
    settle: timedelta = _NO_TIME
    wait: timedelta | None = None
    missing: str | None = None
    patience: timedelta = _NO_TIME
    doubt: str | None = None

    @classmethod
    def of(cls, spec: DatasetSpec) -> Expected:
        """Return the rules of a specification."""
        kind, rules = spec.source.kind, spec.missing_rules
        waits = [topic.transaction_wait for topic in kind.topics]
        return cls(
            spec.schedule_model(),
            kind.settle,
            spec.wait if rules else None,
            _told(rules),
            max(waits, default=_NO_TIME),
        )

    def ready(self, end: datetime) -> datetime:
        """Return the time from which an interval can be planned."""
        return end + self.settle

    def deadline(self, end: datetime) -> datetime:
        """Return the time at which every wait for an interval is over."""
        return self.ready(end) + max(self.wait or _NO_TIME, self.patience)


def _told(rules: Mapping[str, MissingRule]) -> str | None:
    policies = {rule.missing for rule in rules.values()}
    if len(policies) < 2:
        return next(iter(policies), None)
    return ", ".join(f"{rule.missing} ({setting})" for setting, rule in rules.items())


def expected_of(folder: DatasetFolder, datasets: Path | None) -> Expected:
    """Return the rules of a data set: of its specification, or of the recorded schedule.

    Args:
        folder: The data set.
        datasets: The folder of specifications; None to use the recorded schedule.

    Raises:
        FormatError: There is no specification, and the recorded schedule is damaged.
        StorageError: The publication root refused or failed.
    """
    if datasets is None or not (datasets / folder.name / SPEC_FILE).exists():
        return Expected(read_schedule(folder), doubt="it has no specification here")
    try:
        return Expected.of(load_spec(datasets / folder.name))
    except SpecError as error:
        first, *_ = str(error).splitlines()
        return Expected(_recorded(folder), doubt=f"its specification is wrong: {first}")


def _recorded(folder: DatasetFolder) -> Schedule | None:
    try:
        return read_schedule(folder)
    except FormatError:
        return None
