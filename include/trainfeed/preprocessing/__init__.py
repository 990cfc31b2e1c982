"""The names that a ``preprocess.py`` imports; its author needs nothing else of trainfeed.

    from trainfeed.preprocessing import Filtered, Record, Reject

``Record``, ``Reject`` and ``Filtered`` serve every function; ``plain_reader`` with ``whole``,
``number`` and ``text`` read usual records faster in record mode; ``json_columns`` and
``iter_records`` serve functions in batch mode. ``partition_values`` reads the names of folders.
"""

from trainfeed.preprocessing.batch import iter_records, json_columns
from trainfeed.preprocessing.source_record import (
    Filtered,
    Record,
    Reject,
    number,
    partition_values,
    plain_reader,
    text,
    whole,
)

__all__ = [
    "Filtered",
    "Record",
    "Reject",
    "iter_records",
    "json_columns",
    "number",
    "partition_values",
    "plain_reader",
    "text",
    "whole",
]
