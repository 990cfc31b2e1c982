"""Records: the bytes that a batch may have, and messages that quote nothing of a record."""

import pytest

from trainfeed.prediction import RawRecord, RecordForm, WrongRecordError, predict_records
from trainfeed.prediction.records import record_of_json

HALF = 4 << 20


class Counting:
    """A process that tells the number of records of each batch."""

    def predict(self, records):
        return [len(records)]


@pytest.mark.parametrize(
    "parts",
    [
        {"value": b"v" * HALF},
        {"value": None, "key": b"k" * HALF},
        {"value": None, "headers": (("h", b"x" * HALF),)},
        {"value": None, "headers": (("h" * HALF, None),)},
        {"value": b"v" * (HALF // 2), "key": b"k" * (HALF // 2)},
    ],
    ids=["value", "key", "header", "name of a header", "value and key"],
)
def test_every_part_of_a_record_counts_for_the_bytes_of_a_batch(parts):
    record = RawRecord(**parts)
    assert list(predict_records(Counting(), [record] * 5, 100)) == [[2], [2], [1]]


@pytest.mark.parametrize(
    ("found", "got"),
    [
        ({"value": 1, "secret": 2, "hidden": 3}, "got 2 other keys"),
        ({"value": 1, "timestamp_ms": "secret"}, "got str"),
        ({"value": 1, "timestamp_ms": -77}, "got a whole number out of that range"),
        ({"value": 1, "timestamp_ms": True}, "got bool"),
        ({"value": 1, "key": ["secret"]}, "key: expected a text or null, got list"),
        ({"value": 1, "headers": [["secret", 77]]}, "headers: expected a text or null, got int"),
        ({"value": 1, "headers": [["secret", "hidden", 77]]}, "headers: expected a list of pairs"),
        ({"value_base64": "secret!"}, "value_base64: expected base64"),
        ("secret", "expected an object with 'value', got str"),
    ],
)
def test_a_message_about_a_wrong_record_has_nothing_that_the_record_has(found, got):
    with pytest.raises(WrongRecordError) as caught:
        record_of_json(found, RecordForm.RECORD)
    assert got in str(caught.value)
    assert not [part for part in ("secret", "hidden", "77") if part in str(caught.value)]
