"""The result of a look for intervals, and what is said if some of them are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements import told_missing
from trainfeed.dataset.skips import Skip
from trainfeed.dataset.version import Version
from trainfeed.errors import ConfigError, NotFoundError, WindowIncompleteError

__all__ = ["MISSING_POLICIES", "Coverage", "check_policy"]

MISSING_POLICIES: Final = ("fail", "skip")

_SHOWN: Final = 10
_COMMANDS: Final = 3


@dataclass(frozen=True)
class Coverage:
    """The state of a range or list of intervals.

    Attributes:
        folder: The data set.
        asked: The request, as in messages.
        versions: The published versions, in order of time, or of the list.
        missing: Names of the intervals that are neither published nor skipped; without a recorded
            schedule, the ranges without published versions.
        skipped: The decisions to skip intervals.
        missing_runs: The same as ``missing``, with neighbours joined to ``first/last``.
    """

    folder: DatasetFolder
    asked: str
    versions: tuple[Version, ...]
    missing: tuple[str, ...]
    skipped: tuple[Skip, ...]
    missing_runs: tuple[str, ...] = field(repr=False, default=())

    def require(self, missing: str) -> None:
        """Refuse missing intervals, unless they may be skipped, and a range without any version.

        Args:
            missing: ``fail`` or ``skip``.

        Raises:
            ConfigError: ``missing`` is neither of these.
            WindowIncompleteError: Intervals are missing, and ``missing`` is ``fail``.
            NotFoundError: Nothing of the range is published.
        """
        check_policy(missing)
        if not self.versions:
            raise NotFoundError(
                f"data set {self.folder.name!r} has no published version of {self.asked} in"
                f" {self.folder.path}; {self._remedy() or self._decided()}"
            )
        if self.missing and missing == "fail":
            count = len(self.missing) + len(self.versions) + len(self.skipped)
            error = WindowIncompleteError(
                f"data set {self.folder.name!r} lacks {len(self.missing)} of {count} intervals of"
                f" {self.asked}: {_few(self.missing)}; nothing was read; {self._remedy()}; or read"
                " what is there with missing='skip'"
            )
            error.missing = self.missing
            raise error

    def _remedy(self) -> str:
        if not self.missing_runs:
            return ""
        commands = [
            f"trainfeed build {self.folder.name} --interval {run}"
            for run in self.missing_runs[:_COMMANDS]
        ]
        more = len(self.missing_runs) - len(commands)
        rest = f", and {more} more" if more else ""
        it = "it" if len(self.missing) == 1 else "them"
        told = told_missing(self.folder, self.missing)
        return f"build {it}: {', '.join(commands)}{rest}{self._unknown()}{told}"

    def _unknown(self) -> str:
        if self.folder.schedule.exists():
            return ""
        return (
            f" (whether intervals should start there is not known without {self.folder.schedule};"
            " any build of it records its schedule)"
        )

    def _decided(self) -> str:
        first = self.skipped[0]
        return f"all were decided to be left out: {first.interval} on {first.at}, {first.why}"


def check_policy(missing: str) -> None:
    """Refuse a value that is no policy for missing intervals.

    Raises:
        ConfigError: ``missing`` is no policy; for ``list``, the message has its present name.
    """
    if missing not in MISSING_POLICIES:
        renamed = "; 'list' is called 'skip' now" if missing == "list" else ""
        raise ConfigError(
            f"expected missing as one of {', '.join(MISSING_POLICIES)}, got {missing!r}{renamed}"
        )


def _few(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" … and {more} more" if more > 0 else "")
