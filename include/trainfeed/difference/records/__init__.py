"""The samples of two versions of one interval, compared by their positions in bounded memory."""

from trainfeed.difference.records._record_change import ChangeKind, RecordChange, RecordCounts
from trainfeed.difference.records._record_comparison import RecordComparison

__all__ = ["ChangeKind", "RecordChange", "RecordComparison", "RecordCounts"]
