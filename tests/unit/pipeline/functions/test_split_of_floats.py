"""Equal floats stay in one split; the first reading rules compare their bits, as ever."""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest

from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.pipeline.functions.account import SplitFields
from trainfeed.samples import Field

OTHER_NAN = struct.unpack("<d", bytes([1, 0, 0, 0, 0, 0, 0xF8, 0xFF]))[0]
EQUAL = [(0.0, -0.0), (math.nan, -math.nan), (math.nan, OTHER_NAN)]


def both_modes(dtype, values, rules):
    """The hashes of single samples and those of a batch, which must be the same."""
    fields = SplitFields([Field("x", dtype, (), optional=True)], 7, rules)
    single = [fields.of_sample({"x": each}) for each in values]
    column = pa.array(np.array(values, dtype), pa.from_numpy_dtype(dtype))
    assert fields.of_batch(pa.record_batch([column], ["x"])).tolist() == single
    return single


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_values_have_one_hash(dtype, one, other):
    first, second, third = both_modes(dtype, [one, other, 1.5], NEWEST)
    assert first == second != third


def test_values_in_an_array_are_compared_likewise():
    fields = SplitFields([Field("x", "float32", (2,))], 7, NEWEST)
    first, second = (fields.of_sample({"x": np.array(v)}) for v in ([0.0, 1.0], [-0.0, 1.0]))
    assert first == second
    column = pa.array([[0.0, 1.0], [-0.0, 1.0]], pa.list_(pa.float32(), 2))
    assert fields.of_batch(pa.record_batch([column], ["x"])).tolist() == [first, second]


def test_the_first_rules_and_other_values_have_the_hashes_that_they_always_had():
    first, second = both_modes("float64", [0.0, -0.0], ReadingRules.GUESSED)
    assert first != second
    values = [0.0, 1.5, -2.25, math.inf]
    newest = both_modes("float64", values, NEWEST)
    assert newest == both_modes("float64", values, ReadingRules.GUESSED)
