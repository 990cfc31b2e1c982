"""What two versions have not alike: plan, code, specification, lookups, counts, and samples.

Nothing is changed, and nothing of the source is read. Builds and readers do not use this room.
"""

from trainfeed.look.difference.records import RecordChange, RecordComparison, RecordCounts
from trainfeed.look.difference.sections import Section, Side, TextChange
from trainfeed.look.difference.versions import (
    ComparedRecords,
    Difference,
    difference,
    record_comparison,
)
from trainfeed.pipeline.code_copies import ValueChange

__all__ = [
    "ComparedRecords",
    "Difference",
    "RecordChange",
    "RecordComparison",
    "RecordCounts",
    "Section",
    "Side",
    "TextChange",
    "ValueChange",
    "difference",
    "record_comparison",
]
