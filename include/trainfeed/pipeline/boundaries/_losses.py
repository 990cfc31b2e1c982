"""Offsets of an interval that retention deleted, or may have, and whether that is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.errors import OffsetOutOfRangeError
from trainfeed.pipeline.plans import PlannedInput

__all__ = ["Loss", "without"]


_PAST: Final = "retention is past the interval"


@dataclass(frozen=True)
class Loss:
    """Offsets ``[start, end)`` of a source that are gone, or may be.

    Attributes:
        source: Source string of the partition.
        start: First offset.
        end: Offset behind the last.
        is_certain: True if the records are gone; False if nothing proves that they are not. An
            empty range, which is never certain, stands for records of a topic that was deleted.
    """

    source: str
    start: int
    end: int
    is_certain: bool

    def is_in(self, gaps: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether one of the known gaps covers the loss."""
        return any(gap["source"] == self.source and gap["end"] >= self.end for gap in gaps)

    @property
    def is_of_earlier_topic(self) -> bool:
        """Whether the records are those of an earlier topic of the name: the range is empty."""
        return self.start == self.end

    def __str__(self) -> str:
        if self.is_of_earlier_topic:
            return (
                f"the topic of {self.source} was deleted and created again, and records of the"
                " deleted one may belong to the interval"
            )
        what = "were deleted" if self.is_certain else "may have been deleted"
        return f"{self.source} offsets [{self.start}, {self.end}) {what}"


def without(
    losses: Sequence[Loss],
    inputs: Mapping[str, PlannedInput],
    known: Sequence[Mapping[str, Any]],
    *,
    allow_gap: str | None,
) -> tuple[dict[str, PlannedInput], list[dict[str, Any]]]:
    """Return the ranges that can still be read, and all gaps that were allowed.

    Args:
        losses: Ranges that are gone, or may be.
        inputs: The planned ranges, already without the ``known`` gaps.
        known: Gaps of the published version.
        allow_gap: The reason given for accepting further losses, or None to refuse them.

    Raises:
        OffsetOutOfRangeError: Retention deleted records of the interval, or nothing shows that
            it did not.
    """
    if losses and allow_gap is None:
        is_older = all(loss.is_of_earlier_topic for loss in losses)
        raise OffsetOutOfRangeError(
            f"{'the interval is older than the topic' if is_older else _PAST}: "
            + "; ".join(map(str, losses))
            + "; nothing was read or published; restore the records, or accept the loss with"
            " --allow-gap WHY (Airflow: parameter 'allow_gap')"
        )
    kept = dict(inputs)
    gaps = [dict(gap) for gap in known]
    for loss in losses:
        planned = kept[loss.source]
        start = min(max(planned.start, loss.end), planned.end)
        kept[loss.source] = planned.model_copy(update={"start": start})
        if not loss.is_of_earlier_topic:
            gaps.append(_gap(loss, allow_gap))
    return kept, gaps


def _gap(loss: Loss, why: str | None) -> dict[str, Any]:
    return {"source": loss.source, "start": loss.start, "end": loss.end, "why": why}
