"""Records: the bytes that a batch may have."""

import pytest

from trainfeed.prediction import RawRecord, predict_records

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
