"""The names that a ``preprocess.py`` imports; its author needs nothing else of trainfeed.

    from trainfeed.preprocessing import Filtered, Record, Reject

``Record``, ``Reject`` and ``Filtered`` serve every function; ``plain_reader`` with ``whole``,
``number`` and ``text`` read usual records faster in record mode; ``columns_of``, ``json_columns``
and ``iter_records`` serve functions in batch mode. ``partition_values`` reads names of folders, and
``source_member`` the name of a member of a union.
"""

from trainfeed.preprocessing.batch import iter_records, json_columns
from trainfeed.preprocessing.source_record import (
    Filtered,
    Record,
    Reject,
    number,
    partition_values,
    plain_reader,
    source_member,
    text,
    whole,
)
from trainfeed.preprocessing.typed_fields import columns_of

__all__ = [
    "Filtered",
    "Record",
    "Reject",
    "columns_of",
    "iter_records",
    "json_columns",
    "number",
    "partition_values",
    "plain_reader",
    "source_member",
    "text",
    "whole",
]
