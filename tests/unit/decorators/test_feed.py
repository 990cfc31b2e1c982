"""feed and collate: columns by number, used twice, skipped, and missing."""

import numpy as np
import pytest

from trainfeed.decorators import batch, collate, feed, map_readers
from trainfeed.errors import SampleShapeError
from trainfeed.readers import BlockSource, RowForm, np_array


def pairs(n):
    return lambda: iter([(np.full(3, i, np.float32), i, str(i)) for i in range(n)])


def test_columns_are_used_twice_and_skipped():
    reader = feed(batch(pairs(3), 2), {"image_a": 0, "image_b": 0, "name": 2})
    first, second = reader()
    assert list(first) == ["image_a", "image_b", "name"]
    assert first["image_a"].tolist() == first["image_b"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert (first["image_a"].dtype, first["name"]) == (np.float32, ["0", "1"])
    assert second["name"] == ["2"]


def test_a_column_that_is_not_there_fails_at_the_first_batch():
    reader = feed(batch(pairs(3), 2), {"image": 0, "label": 7})
    with pytest.raises(SampleShapeError, match="a column 7 for 'label', samples have 3"):
        next(reader())
    with pytest.raises(ValueError, match="column of 0 or more for 'image'"):
        feed(batch(pairs(3), 2), {"image": -1})


def test_bare_samples_are_one_column_and_mappings_go_by_field():
    (got,) = feed(batch(lambda: iter([1, 2]), 2), {"x": 0})()
    assert got["x"].tolist() == [1, 2]
    (got,) = feed(batch(lambda: iter([{"a": 1}, {"a": 2}]), 2), {"x": "a"})()
    assert got["x"].tolist() == [1, 2]


@pytest.mark.parametrize("form", [RowForm.TUPLE, RowForm.MAPPING])
def test_blocks_are_fed_without_looking_at_samples(form):
    data = {"image": np.arange(12).reshape(6, 2), "label": np.arange(6)}
    source = BlockSource(lambda: iter([data]), form=form)
    keys = {"a": 0, "b": 0, "c": 1} if form is RowForm.TUPLE else {"a": "image", "c": "label"}
    reader = feed(batch(source, 4), keys)
    blocks = list(reader())
    assert [block["c"].tolist() for block in blocks] == [[0, 1, 2, 3], [4, 5]]
    assert np.shares_memory(blocks[0]["a"], data["image"])
    with pytest.raises(SampleShapeError, match="a column 9 for 'x'"):
        next(feed(batch(source, 4), {"x": 9})())
    with pytest.raises(ValueError, match="batch its samples first"):
        feed(source, keys)


def test_both_ways_give_the_same():
    source = np_array(np.arange(10.0))
    fast = list(feed(batch(source, 4), {"x": 0})())
    slow = list(feed(batch(map_readers(lambda x: x, source), 4), {"x": 0})())
    for a, b in zip(fast, slow, strict=True):
        assert a["x"].tolist() == b["x"].tolist()
        assert a["x"].dtype == b["x"].dtype


def test_samples_may_be_lists():
    images, labels = collate([[np.zeros(3), 1], [np.ones(3), 2]])
    assert (images.shape, labels.tolist()) == ((2, 3), [1, 2])


def test_pythons_integers_may_stand_beside_floats():
    ((column,), (other,)) = collate([(1,), (2.5,)]), collate([float("nan"), -(2**53)])
    assert (column.dtype, column.tolist()) == (np.float64, [1.0, 2.5])
    assert other[1] == -(2**53)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(1, 2), (1,)], "batch 5, sample 1: expected 2 columns"),
        (
            [(np.zeros(3),), (np.zeros(3),), (np.zeros(4),)],
            "batch 5, column 0: expected values of one shape, .* sample 2 is the first of another",
        ),
        ([(1,), 2], "batch 5, sample 1: expected 1 columns like sample 0, got int"),
        ([(1, None), (1, None)], "batch 5, column 1: expected numbers or text, got .'NoneType'"),
        ([(2**53 + 1,), (0.5,)], "batch 5, column 0: expected values of one type"),
        (
            [(2**63 + 1,), (1,)],
            "batch 5, column 0: expected values of one type, got .'int64', 'uin",
        ),
        (
            [(np.int32(1),), (np.float32(2),)],
            "column 0: expected values of one type, got .'float32",
        ),
        (
            [(True,), (2,)],
            "column 0: expected values of one type, got .'bool', 'int64'.; sample 1 is the first",
        ),
        (
            [{"a": 1}, {"a": 1, "b": 2}],
            "batch 5, sample 1: expected the fields .'a'. like sample 0",
        ),
        ([{"a": 1}, {}], "batch 5, sample 1: expected the fields .'a'. like sample 0, got"),
        ([{"a": 1}, (1,)], "batch 5, sample 1: expected the fields .'a'. like sample 0, got tuple"),
        ([], "batch 5: expected a list of samples, got an empty one"),
        (7, "batch 5: expected a list of samples, got int"),
    ],
)
def test_what_does_not_stack_says_where(items, message):
    with pytest.raises(SampleShapeError, match=message):
        collate(items, 5)
