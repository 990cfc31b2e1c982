"""What two versions have not alike: plan, code, specification, lookups, counts, and samples.

Nothing is changed, and nothing of the source is read. Builds and readers do not use this room.
"""

from trainfeed.difference._compared_records import ComparedRecords, record_comparison
from trainfeed.difference._difference import Difference, difference
from trainfeed.difference._sample_json import change_to_json
from trainfeed.difference._sections import Section
from trainfeed.difference._side import Side
from trainfeed.difference._text_changes import TextChange
from trainfeed.difference._value_changes import ValueChange
from trainfeed.difference.records import RecordChange, RecordComparison, RecordCounts

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
    "change_to_json",
    "difference",
    "record_comparison",
]
