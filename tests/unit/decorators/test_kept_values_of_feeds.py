"""No value changes between samples and the columns that ``feed`` makes of them, or a loader.

A column has each value as the samples have it, to the bit, or there is an error that names batch
and column. ``TRAINFEED_VALUES`` draws more, as in ``test_kept_values.py`` of conversions.
"""

import os
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.conversion.drawn_values import bits, tables
from trainfeed.decorators import batch, feed
from trainfeed.errors import SampleShapeError, TrainFeedError
from trainfeed.loader import DataLoader
from trainfeed.samples import rows_or_none

SAMPLES = int(os.environ.get("TRAINFEED_VALUES", "120"))
COUNTS = Counter()
# What a reader may give beside arrays: numpy chooses a type for lists of these.
PLAIN = (
    st.sampled_from([2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**63), -1, 0, 1, 10**400])
    | st.floats()
    | st.booleans()
    | st.sampled_from([np.float32(0.1), np.int64(2**62 + 1), np.uint64(2**64 - 1), np.bool_(True)])
    | st.sampled_from(["", "a", "a\0", b"b\0", "1", None])
    | st.sampled_from([np.ma.masked, np.str_("a\0"), np.ma.array([1, 2], mask=[0, 1])])
)


def is_same(before, after):
    """Whether a value of a column is that of a sample: exact for numbers, bits for NaN aside."""
    if before is after:
        return True
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(is_same, before, after))
    if isinstance(before, np.ma.MaskedArray):
        return not np.ma.is_masked(before) and before.tolist() == np.asarray(after).tolist()
    after = after.item() if isinstance(after, np.generic | np.ndarray) else after
    before = before.item() if isinstance(before, np.generic) else before
    if isinstance(before, bool) is not isinstance(after, bool):
        return False
    return before == after or (before != before and after != after)  # noqa: PLR0124


def fed(rows, size):
    return list(feed(batch(lambda: iter(rows), size), {"x": 0, "y": 0})())


@pytest.mark.timeout(300 + SAMPLES)
@given(table=tables(), size=st.integers(1, 4))
@settings(max_examples=SAMPLES, suppress_health_check=list(HealthCheck))
def test_fields_of_every_type_come_out_of_a_feed(table, size):
    schema, rows = table
    kept = [field for field in schema if all(row[field.name] is not None for row in rows)]
    feeding = {field.name: field.name for field in kept}
    try:
        batches = list(feed(batch(lambda: iter(rows), size), feeding)())
    except SampleShapeError:
        # Lists of several lengths are no array; everything else is.
        assert any(None in field.shape for field in kept)
        return
    found = [
        dict(zip(each, values, strict=True))
        for each in batches
        for values in zip(*(rows_or_none(column) for column in each.values()), strict=True)
    ]
    for field in kept:
        types = {getattr(each[field.name], "dtype", None) for each in batches}
        assert types == {None if field.is_text else np.dtype(field.dtype)}
    missing = {field.name: None for field in schema}
    wanted = bits(schema, [missing | {name: row[name] for name in feeding} for row in rows])
    COUNTS["values"] += len(wanted) * len(kept)
    if feeding and bits(schema, [missing | row for row in found]) != wanted:
        COUNTS["changed"] += 1
    assert not COUNTS["changed"], rows


@pytest.mark.timeout(300 + SAMPLES)
@given(
    values=st.lists(PLAIN | st.lists(PLAIN, max_size=3), min_size=1, max_size=4)
    | st.lists(
        st.lists(st.lists(PLAIN, min_size=2, max_size=2), min_size=1, max_size=2), max_size=3
    )
)
@settings(max_examples=SAMPLES, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("way", ["feed", "loader"])
def test_values_of_python_are_kept_or_refused(way, values):
    rows = [(value,) for value in values]
    try:
        if way == "feed":
            batches = [each["x"] for each in fed(rows, 4)]
        else:
            batches = [each["0"] for each in DataLoader(lambda: iter(rows), 4)]
    except TrainFeedError:
        COUNTS["refused"] += 1
        return
    found = [value for column in batches for value in column]
    COUNTS["values"] += len(values)
    changed = [pair for pair in zip(values, found, strict=True) if not is_same(*pair)]
    COUNTS["changed"] += len(changed)
    assert not changed


@pytest.mark.parametrize(
    "value",
    [
        [2**53 + 1, 0.5],
        [[2**53 + 1], [0.5]],
        [2**63 + 1, -1],
        [np.uint64(2**64 - 1), np.int64(1)],
        [True, 2],
        ["a", 1],
        ["a\0"],
        [b"a", "a"],
        np.ma.masked,
        np.ma.array([1, 2], mask=[False, True]),
        [np.ma.array([1, 2], mask=[False, True])],
    ],
    ids=repr,
)
def test_a_list_of_which_numpy_would_change_a_value_is_refused(value):
    with pytest.raises(SampleShapeError, match="batch 0, column 0: "):
        fed([(value,)], 1)
    with pytest.raises(TrainFeedError), DataLoader(lambda: iter([(value,)]), 1) as loader:
        list(loader)


@pytest.mark.parametrize(
    "value", [[1, 0.5], [2**63, 1], [np.float32(0.1), 0.5], [np.zeros(2), np.ones(2)], [[], []]]
)
def test_a_list_of_several_types_whose_values_stay_is_an_array(value):
    (found,) = fed([(value,)], 1)
    assert found["x"].tolist() == [np.asarray(value).tolist()]


def test_values_were_fed_and_none_changed(capsys):
    with capsys.disabled():
        sys.stdout.write(
            f"\n{COUNTS['values']} values, {COUNTS['refused']} batches refused,"
            f" {COUNTS['changed']} changed\n"
        )
    assert COUNTS["changed"] == 0
