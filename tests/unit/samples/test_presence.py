"""Which samples lack an optional field: bits of records and masks of columns say the same."""

import numpy as np
import pytest

from trainfeed.samples import (
    Field,
    Schema,
    TypedCodec,
    absent_rows,
    frame_records,
    joined_columns,
    masked_rows,
    rows_or_none,
)

ABSENT = np.array([True, False, True])


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2), (0, 4)])
def test_rows_that_were_masked_are_the_absent_ones(shape):
    absent = ABSENT[: shape[0]]
    column = masked_rows(np.ones(shape), absent)
    assert np.ma.getmaskarray(column).shape == shape
    assert absent_rows(column).tolist() == absent.tolist()
    assert not absent_rows(np.ones(shape)).any()


def test_a_row_that_is_masked_in_part_is_absent():
    column = np.ma.MaskedArray(np.ones((2, 2)), [[False, True], [False, False]])
    assert absent_rows(column).tolist() == [True, False]


def test_rows_of_a_masked_column_are_none_where_it_is_masked():
    column = masked_rows(np.arange(6).reshape(3, 2), ABSENT)
    rows = list(rows_or_none(column))
    assert rows[0] is None
    assert rows[1].tolist() == [2, 3]
    assert rows[2] is None
    assert list(rows_or_none(np.arange(3))) == [0, 1, 2]


def test_a_joined_column_is_masked_where_any_part_is():
    joined = joined_columns([np.zeros(2), masked_rows(np.ones(3), ABSENT)])
    assert absent_rows(joined).tolist() == [False, False, *ABSENT]
    assert type(joined_columns([np.zeros(2), np.ones(1)])) is np.ndarray


@pytest.mark.parametrize("num_optional", [1, 7, 8, 9, 16, 17])
def test_the_bit_of_every_field_comes_back(num_optional):
    """Full bytes have no bits to spare, and the last field has the highest."""
    optional = [Field(f"f{i}", "int8", optional=True) for i in range(num_optional)]
    schema = Schema((*optional, Field("there", "int8")))
    columns = {
        f"f{i}": masked_rows(np.ones(num_optional, np.int8), np.arange(num_optional) != i)
        for i in range(num_optional)
    }
    codec = TypedCodec(schema)
    records = codec.encode_columns({**columns, "there": np.zeros(num_optional, np.int8)})
    framing = frame_records(records)
    for decoded in (codec.columns_of(records), codec.decode_columns(framing, len(records))):
        for name, column in columns.items():
            assert absent_rows(decoded[name]).tolist() == absent_rows(column).tolist()
    for i, record in enumerate(records):
        sample = codec.decode(record.tobytes())
        assert [name for name, value in sample.items() if value is not None] == [f"f{i}", "there"]
