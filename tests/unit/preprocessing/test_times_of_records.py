"""The time of a record is exact, or the record is rejected."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from trainfeed.core.reading_rules import ReadingRules
from trainfeed.preprocessing import Record, Reject, iter_records
from trainfeed.preprocessing.batch import told_rules
from trainfeed.preprocessing.source_record import record_type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_999


def record(stamp, kind=Record):
    return kind(b"x", None, stamp, (), "kafka:t/0", 0)


@pytest.mark.parametrize("stamp", [0, 1, 999, 1_700_000_000_123, LAST_MS, -2])
def test_a_time_is_exact_to_the_millisecond(stamp):
    assert (record(stamp).timestamp - EPOCH) // timedelta(milliseconds=1) == stamp
    assert (record(stamp).timestamp - EPOCH) % timedelta(milliseconds=1) == timedelta(0)


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [(-1, "no_timestamp"), (1_700_000_000_000_000, "bad_timestamp"), (1 << 62, "bad_timestamp")],
)
def test_a_record_without_a_time_in_milliseconds_is_rejected(stamp, reason):
    with pytest.raises(Reject) as caught:
        _ = record(stamp).timestamp
    assert caught.value.reason == reason
    assert record(stamp).timestamp_ms == stamp


def batch(stamp):
    row = {"value": b"x", "key": None, "timestamp": stamp, "headers": [], "source": "s"}
    return pa.RecordBatch.from_pylist([{**row, "offset": 0, "_row": 0}])


@pytest.mark.parametrize("rules", ReadingRules)
def test_batch_mode_and_record_mode_have_the_times_of_their_rules(rules):
    told = batch(-1).replace_schema_metadata(told_rules(rules) or None)
    (_, found), *_ = iter_records(told, [0])
    for each in (found, record(-1, record_type(rules))):
        if rules is ReadingRules.GUESSED:
            assert each.timestamp == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
        else:
            with pytest.raises(Reject):
                _ = each.timestamp
