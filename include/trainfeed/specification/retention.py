"""The part ``retention`` of a specification: how long everything of a data set is kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainfeed.specification.values import Part, Size

_Days = Annotated[int, Field(ge=1)] | None
_Number = Annotated[int, Field(ge=1)] | None
_Bytes = Annotated[Size, Field(ge=0)] | None


class RetentionRule(Part):
    """The end of one kind of files; without a key nothing of the kind is removed.

    Attributes:
        keep: Number of newest ones that are kept, whatever their age.
        keep_days: Days for which further ones are kept.
        max_bytes: Bytes that they may have together; beyond, the oldest are removed.
    """

    keep: _Number = None
    keep_days: _Days = None
    max_bytes: _Bytes = None


class RetentionSpec(Part):
    """How long everything of a data set is kept. What is in use is never removed.

    Attributes:
        keep_generations: Number of newest generations of an interval that are kept.
        keep_days: Number of days after publication for which further generations are kept.
        keep_withdrawn_days: Days after the withdrawal for which a withdrawn generation is kept;
            without it, withdrawn generations are kept.
        keep_intervals: Number of newest intervals that are kept; older ones are retired as a whole.
        keep_intervals_days: Days after its end, and after its last publication, for which an
            interval is kept; then it is retired.
        max_bytes: Bytes that all versions may have together; beyond, the oldest intervals are
            retired.
        plans: Plans that were never published.
        landing: Landing files.
        work: Unfinished files of killed and abandoned builds, which have not changed for a day.
        trainings: Finished trainings.
        models: Versions of the model of ``train.model``.
        uploads: Uploads of retired intervals, with their kept bytes; the receipts stay.
    """

    keep_generations: Annotated[int, Field(ge=1)] = 3
    keep_days: _Days = None
    keep_withdrawn_days: _Days = None
    keep_intervals: _Number = None
    keep_intervals_days: _Days = None
    max_bytes: _Bytes = None
    plans: RetentionRule = Field(default_factory=RetentionRule)
    landing: RetentionRule = Field(default_factory=RetentionRule)
    work: RetentionRule = Field(default_factory=RetentionRule)
    trainings: RetentionRule = Field(default_factory=RetentionRule)
    models: RetentionRule = Field(default_factory=RetentionRule)
    uploads: RetentionRule = Field(default_factory=RetentionRule)
