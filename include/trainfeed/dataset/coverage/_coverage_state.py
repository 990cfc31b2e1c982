"""The result of a look for intervals, and what is said if some of them are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trainfeed.dataset.accepted_holes import AcceptedHole
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements import missing_remedies, told_missing
from trainfeed.dataset.skips import Skip
from trainfeed.errors import ConfigError, NotFoundError, WindowIncompleteError

if TYPE_CHECKING:
    from trainfeed.dataset.version import Version

__all__ = ["MISSING_POLICIES", "Coverage", "check_policy"]

MISSING_POLICIES: Final = ("fail", "skip")

_SHOWN: Final = 10


@dataclass(frozen=True)
class Coverage:
    """The state of a range or list of intervals.

    Attributes:
        folder: The data set.
        asked: The request, as in messages.
        versions: The published versions, in order of time, or of the list.
        missing: Names of the intervals that are neither published nor skipped; and the ranges
            between versions into which no interval of the schedule fits, or without a recorded
            schedule all ranges without published versions.
        skipped: The decisions to skip intervals.
        missing_runs: The same as ``missing``, with neighbours joined to ``first/last``.
        accepted: The holes between versions that a person accepted.
        unfit: The members of ``missing`` that are no intervals of the schedule.
    """

    folder: DatasetFolder
    asked: str
    versions: tuple[Version, ...]
    missing: tuple[str, ...]
    skipped: tuple[Skip, ...]
    missing_runs: tuple[str, ...] = field(repr=False, default=())
    accepted: tuple[AcceptedHole, ...] = ()
    unfit: tuple[str, ...] = field(repr=False, default=())

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
                f" {self.folder.path}; {self.remedy or self._decided()}"
            )
        if self.missing and missing == "fail":
            count = len(self.missing) + len(self.versions) + len(self.skipped)
            error = WindowIncompleteError(
                f"data set {self.folder.name!r} lacks {len(self.missing)} of {count} intervals of"
                f" {self.asked}: {_few(self.missing)}; nothing was read; {self.remedy}; or read"
                " what is there with missing='skip'"
            )
            error.missing = self.missing
            raise error

    @property
    def remedy(self) -> str:
        """What to do about the missing parts, with who retired or withdrew them; "" if none is."""
        if not self.missing_runs:
            return ""
        runs = [run for run in self.missing_runs if run not in self.unfit]
        names = [name for name in self.missing if name not in self.unfit]
        parts = missing_remedies(self.folder, names, runs, self._unknown()) if runs else []
        if self.unfit:
            parts.append(
                f"no interval of the schedule of now fits into {_few(self.unfit)}: correct the"
                " schedule, or go without: trainfeed accept-hole"
                f" {self.folder.name}/{self.unfit[0]} --why WHY"
            )
        return "; ".join(parts) + told_missing(self.folder, self.missing)

    def _unknown(self) -> str:
        if self.folder.schedule.exists():
            return ""
        return (
            f" (whether intervals should start there is not known without {self.folder.schedule};"
            " any build of it records its schedule)"
        )

    def _decided(self) -> str:
        for skip in self.skipped:
            return f"all were decided to be left out: {skip.interval} on {skip.at}, {skip.why}"
        hole = self.accepted[0]
        return f"there is a hole, {hole.range}, {hole.told}"


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
