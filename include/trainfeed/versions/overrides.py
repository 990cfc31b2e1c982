"""Values of parameters that a person chose for one interval, in place of those in dataset.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.core.accounts import Decision
from trainfeed.errors import ConflictError
from trainfeed.files.records import RecordFile
from trainfeed.versions.history import Action, record_action
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.state_folder import deciding


@dataclass(frozen=True)
class Override(Decision):
    """The decision that builds of an interval use other values of parameters.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        number: Number of the decision; the last one of an interval holds.
        parameters: Name → value, as in dataset.yaml; empty if dataset.yaml counts again.
    """

    dataset: str
    interval: str
    number: int
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The values, who chose them, when and why, for messages."""
        values = ", ".join(f"{name}={value!r}" for name, value in sorted(self.parameters.items()))
        what = values or "the values of dataset.yaml"
        return f"{what}, chosen by {self.by} on {self.at}: {self.why}"


_FILE: Final = RecordFile(
    Override,
    "the decision about the parameters of an interval",
    "nothing was built or changed; bring the file back from a backup",
)


def overrides_of(folder: DatasetFolder, interval: str) -> list[Override]:
    """Return all decisions about the parameters of an interval, the oldest first.

    Raises:
        FormatError: A file is damaged or missing.
        StorageError: The publication root refused or failed.
    """
    expected = {"dataset": folder.name, "interval": interval}
    return [each for _, each in _FILE.numbered(folder.overrides(interval), **expected)]


def override_of(folder: DatasetFolder, interval: str) -> Override | None:
    """Return the decision that holds for an interval; None if dataset.yaml counts.

    Raises:
        FormatError: A file is damaged or missing.
        StorageError: The publication root refused or failed.
    """
    found = overrides_of(folder, interval)
    return found[-1] if found and found[-1].parameters else None


@deciding("parameters")
def write_override(
    folder: DatasetFolder, interval: str, parameters: Mapping[str, Any], decision: Decision
) -> tuple[Override | None, bool]:
    """Write a decision, unless the one that holds has the same values.

    Args:
        folder: The data set.
        interval: Name of the interval.
        parameters: Name → value, as plain JSON; empty to end the decision that holds.
        decision: Who decides, when and why. A decision with a request that is carried out already
            is not written again, whatever was decided since.

    Returns:
        The decision that holds, None if dataset.yaml counts; and whether this call wrote it.

    Raises:
        ConflictError: Another decision was written at the same time.
        FormatError: A file is damaged or missing.
        StorageError: The publication root refused or failed.
    """
    earlier = overrides_of(folder, interval)
    holds = earlier[-1] if earlier and earlier[-1].parameters else None
    is_done = decision.request is not None and any(e.request == decision.request for e in earlier)
    if is_done or dict(parameters) == ({} if holds is None else holds.parameters):
        if earlier:
            _FILE.confirm(folder.overrides(interval), earlier[-1].number)
        return holds, False
    number = len(earlier) + 1
    made = Override(
        folder.name,
        interval,
        number,
        dict(parameters),
        who=decision.who,
        account=decision.account,
        why=decision.why,
        at=decision.at,
        request=decision.request,
    )
    details = {"from": {} if holds is None else holds.parameters, "to": made.parameters}
    target = f"{folder.name}/{interval}"
    record_action(
        folder,
        Action.now("parameters", target, why=decision.why, who=decision.who, details=details),
    )
    if not _FILE.append(folder.overrides(interval), number, made):
        raise ConflictError(
            f"the parameters of {target} were decided at the same time by somebody else; theirs"
            f" hold, yours were not written; look: trainfeed parameters {target}"
        )
    return (made if made.parameters else None), True
