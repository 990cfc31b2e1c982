"""Lines of libFM: those that become rows of a sparse matrix, and the reasons of the others."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples.ctr.planted import FILTERED, KINDS, break_line, kind_of
from tests.unit.ctr.conftest import FOLDER
from trainfeed.preprocessing import Filtered, Record, Reject

ITEMS = pa.table({
    "item": [2000, 2014], "measure": [0.1, -2.5], "category_1": [3000, 3001],
    "category_2": [3010, 3010], "category_3": [3020, 3021],
})  # fmt: skip
LINE = b"1 2:1 101:1 1071:3 2014:1"


@pytest.fixture
def ctr(load):
    function = load("preprocess").ctr
    return lambda line, items=ITEMS: function(record(line), {"items": items})


def record(line):
    return Record(line, None, 0, (), "logs:dt=2019-11-24/random-all.libfm", 0)


def test_a_line_is_joined_with_its_item_and_sorted(ctr):
    sample = ctr(b"1 2014:1 2:1 1071:3 101:0.5 # seen")
    assert sample["label"] == 1
    assert sample["indices"].tolist() == [2, 101, 1071, 2014, 3001, 3010, 3021, 4000]
    assert sample["values"].tolist() == [1, 0.5, 3, 1, 1, 1, 1, -2.5]
    assert (sample["indices"].dtype, sample["values"].dtype) == (np.int64, np.float32)


def test_values_are_rounded_to_float32(ctr):
    sample = ctr(b"0 2000:1 5:0.1 6:1e-60 7:16777217")
    assert sample["values"][:3].tolist() == [float(np.float32(0.1)), 0.0, 16777216.0]
    assert sample["values"][-1] == np.float32(0.1)


@pytest.mark.parametrize("line", [None, b"", b"  ", b"# 1 2:1", b"\t#"])
def test_what_holds_no_data_is_filtered(ctr, line):
    assert ctr(line) == Filtered("no_data")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LINE[2:], "bad_label"),
        (b"2" + LINE[1:], "bad_label"),
        (b"-1" + LINE[1:], "bad_label"),
        (b"1.0" + LINE[1:], "bad_label"),
        (b"\xd9\xa1" + LINE[1:], "bad_label"),  # an Arabic 1
        (LINE + b" 5", "bad_pair"),
        (LINE + b" 5:", "bad_pair"),
        (LINE + b" :1", "bad_pair"),
        (LINE + b" 5:1:1", "bad_pair"),
        (LINE + b" 5:nan", "bad_pair"),
        (LINE + b" 5:inf", "bad_pair"),
        (LINE + b" 5:0x1", "bad_pair"),
        (LINE + b" 5:1_0", "bad_pair"),
        (LINE + b" -5:1", "bad_pair"),
        (LINE + b" 1234567890:1", "bad_pair"),
        (LINE + b" 5 :1", "bad_pair"),
        (LINE + b" 5:1e39", "bad_value"),
        (LINE + b" 5:" + b"9" * 400, "bad_value"),
        (LINE + b" 3000:1", "unknown_index"),
        (LINE + b" 2:1", "index_twice"),
        (LINE + b" 02:1", "index_twice"),
        (LINE + b" 2014:1", "index_twice"),
        (b"1 2:1", "no_item"),
        (b"1", "no_item"),
        (LINE + b" 2000:1", "two_items"),
        (b"1 2999:1", "not_in_dictionary"),
    ],
)
def test_a_broken_line_is_rejected_with_its_reason(ctr, line, reason):
    with pytest.raises(Reject) as caught:
        ctr(line)
    assert caught.value.reason == reason


def test_every_planted_line_has_its_reason(ctr):
    for number in range(len(KINDS)):
        reason = KINDS[kind_of(number)]
        line = break_line(number, LINE)
        if reason in FILTERED:
            assert ctr(line) == Filtered(reason)
            continue
        with pytest.raises(Reject) as caught:
            ctr(line)
        assert caught.value.reason == reason


def test_an_item_that_stands_twice_in_the_dictionary_ends_the_build(ctr):
    with pytest.raises(ValueError, match="expected every item once in the dictionary, got 2000"):
        ctr(LINE, pa.concat_tables([ITEMS, ITEMS]))


def test_another_dictionary_is_used_at_once(ctr):
    other = ITEMS.set_column(1, "measure", [[7.0, 8.0]])
    assert [ctr(LINE)["values"][-1], ctr(LINE, other)["values"][-1]] == [-2.5, 8.0]


def test_a_long_number_is_refused_at_once(ctr):
    started = time.process_time()
    with pytest.raises(Reject, match="bad_pair"):
        ctr(LINE + b" 5:" + b"1" * (1 << 20) + b"x")
    # Minutes, if the pattern tried all ways to divide the digits.
    assert time.process_time() - started < 20


@given(
    features=st.dictionaries(
        st.integers(0, 1999), st.floats(width=32, allow_nan=False, allow_infinity=False)
    ),
    label=st.integers(0, 1),
    rng=st.randoms(use_true_random=False),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(load, features, label, rng):
    pairs = [f"{index}:{value!r}".encode() for index, value in features.items()] + [b"2014:1"]
    rng.shuffle(pairs)
    line = b" ".join([b"%d" % label, *pairs])
    assert load("libfm").parse_line(line) == (label, {**features, 2014: 1.0})


def test_the_shipped_dictionary_has_features_of_its_own(load):
    found = load("lookups").features_by_item(pyarrow.csv.read_csv(FOLDER / "items.csv"))
    features = load("features")
    assert len(found) == 160
    for index, values in found.items():
        assert index in features.ITEMS
        assert features.NUM_LOGGED <= min(values) <= max(values) < features.NUM_FEATURES
        assert len(values) == 4
