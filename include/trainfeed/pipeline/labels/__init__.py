"""Labels of uploads in a build: one work file, the join with samples, and its account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.labels._join_account import JoinAccount, JoinCounts
    from trainfeed.pipeline.labels._label_files import (
        count_used,
        load_labels,
        settle_labels,
        settle_used,
    )
    from trainfeed.pipeline.labels._label_join import UNLABELLED, LabelJoin

__all__ = [
    "UNLABELLED",
    "JoinAccount",
    "JoinCounts",
    "LabelJoin",
    "count_used",
    "load_labels",
    "settle_labels",
    "settle_used",
]


__getattr__ = on_demand(__name__, __file__)
