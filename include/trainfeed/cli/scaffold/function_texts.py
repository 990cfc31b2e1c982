"""The texts of a function for real records, with marks such as ``@FIELDS@``, which are replaced."""

from __future__ import annotations

from typing import Final

_HEAD: Final = '''\
"""Records of @NAME@ → samples, drafted by `trainfeed new` from @FILE@.

The function sees one record at a time and must be pure: the same record always gives the same
samples. Its imports must be installed, or lie in this folder (`from . import other`).
"""

'''

# What readers of times need, before the imports of a function for records with times.
TIMES: Final = """\
from datetime import UTC, datetime, timedelta

"""
TIME_UNITS: Final = """

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {
    "s": timedelta(seconds=1), "ms": timedelta(milliseconds=1), "us": timedelta(microseconds=1)
}
"""

# At the end of the module, because it names the readers.
FIELDS: Final = """

# Field of the schema → its name in the record, and what reads it.
FIELDS = {
@FIELDS@
}
# These may be absent.
OPTIONAL = @OPTIONAL@
"""

JSON_FUNCTION: Final = (
    _HEAD
    + '''\
from trainfeed.preprocessing import Reject


def make_sample(record, lookups):
    """Return a sample: a value per field of the schema in dataset.yaml.

    `Filtered("reason")` of trainfeed.preprocessing is returned for records that are not wanted.
    """
    row = record.json()  # a record that is not JSON goes to quarantine, with position and bytes
    if not isinstance(row, dict):
        raise Reject("no_object")
    return sample_of(row)
'''
)

TYPED_FUNCTION: Final = (
    _HEAD
    + '''\
@TIMES@from trainfeed.preprocessing import Reject


def make_sample(record, lookups):
    """Return a sample: a value per field of the schema in dataset.yaml.

    `Filtered("reason")` of trainfeed.preprocessing is returned for records that are not wanted.
    A function that gets many records at once, as arrays, is several times as fast: `columns_of`.
    """
    return sample_of(record.fields)
'''
)

CSV_FUNCTION: Final = (
    _HEAD
    + '''\
import csv
import json

from trainfeed.preprocessing import Filtered, Reject

COLUMNS = [
@COLUMNS@
]
# Cells that stand for nothing; in columns of text only the last one does.
NOTHING = {"", "null", "NULL", "NA", "N/A", "n/a", "#N/A", "<NA>", "\\\\N"}
TEXTS = @TEXTS@


def make_sample(record, lookups):
    """Return a sample: a value per field of the schema in dataset.yaml.

    A record is a line of CSV; a text with a line end in it is cut there, and goes to quarantine.
    """
    try:
        line = (record.value or b"").decode(@ENCODING@).rstrip("\\r")
        cells = next(csv.reader([line], delimiter=@DELIMITER@, quotechar=@QUOTE@, strict=True), [])
    except (UnicodeError, csv.Error) as error:
        raise Reject("not_csv", str(error)) from error
    if cells == COLUMNS:
        return Filtered("header")
    if len(cells) != len(COLUMNS):
        raise Reject("not_csv", f"expected {len(COLUMNS)} cells, got {len(cells)}")
    row = dict(zip(COLUMNS, cells))
    return sample_of({name: from_cell(name, cell) for name, cell in row.items()})
'''
)

SAMPLE_OF: Final = '''

def sample_of(row):
    """Return the sample of a record's values; a wrong one sends the record to quarantine."""
    sample = {}
    for field, (name, read) in FIELDS.items():
        value = row.get(name)
        if value is None:
            if field not in OPTIONAL:
                raise Reject("no_value", name)
            continue
        try:
            sample[field] = read(value)
        except (OverflowError, TypeError, ValueError) as error:
            raise Reject("bad_value", f"{name}: {error}") from error
    return sample
'''

READERS: Final = {
    "from_cell": '''

def from_cell(name, cell):
    """Return the value of a cell: text, or what the text spells; None for nothing."""
    if name in TEXTS:
        return None if cell == "\\\\N" else cell
    if cell in NOTHING:
        return None
    try:
        return json.loads(cell.lower() if cell.lower() in ("true", "false") else cell)
    except (RecursionError, ValueError):
        return cell
''',
    "whole": '''

def whole(value):
    """Return a whole number of 64 bits."""
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise TypeError(f"expected a whole number of 64 bits, got {value!r:.60}")
    return value
''',
    "unsigned": '''

def unsigned(value):
    """Return a whole number of 64 bits without a sign."""
    if type(value) is not int or not 0 <= value < 2**64:
        raise TypeError(f"expected a whole number of 64 bits from 0 on, got {value!r:.60}")
    return value
''',
    "number": '''

def number(value):
    """Return a number as a float."""
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, got {value!r:.60}")
    return float(value)
''',
    "boolean": '''

def boolean(value):
    """Return true or false."""
    if type(value) is not bool:
        raise TypeError(f"expected true or false, got {value!r:.60}")
    return value
''',
    "text": '''

def text(value):
    """Return a text that UTF-8 can hold."""
    if type(value) is not str:
        raise TypeError(f"expected a text, got {value!r:.60}")
    value.encode()
    return value
''',
    "raw": '''

def raw(value):
    """Return bytes."""
    if type(value) is not bytes:
        raise TypeError(f"expected bytes, got {value!r:.60}")
    return value
''',
    "ticks": '''

def ticks(unit):
    """Return a function that reads a time as a number since 1970, UTC, in a unit."""

    def read(value):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // UNITS[unit]

    return read
''',
    "days": '''

def days(value):
    """Return a date as the number of days since 1970."""
    return value.toordinal() - EPOCH.toordinal()
''',
    "clock": '''

def clock(unit):
    """Return a function that reads a time of day as a number since midnight, in a unit."""

    def read(value):
        since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
        return (since + timedelta(microseconds=value.microsecond)) // UNITS[unit]

    return read
''',
    "array": '''

def array(read, *shape):
    """Return a function that reads lists of this shape; None is any length."""

    def read_list(value):
        if type(value) is not list or shape[0] not in (None, len(value)):
            raise TypeError(f"expected a list of length {shape[0]}, got {value!r:.60}")
        inner = array(read, *shape[1:]) if shape[1:] else read
        return [inner(each) for each in value]

    return read_list
''',
}
