"""Whole numbers among arguments: accepted types, ranges, and messages."""

import numpy as np
import pytest

from trainfeed.core.whole_numbers import rank_of, whole, whole_value
from trainfeed.errors import ConfigError


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7), np.array(7)])
def test_a_whole_number_of_any_type_is_an_int(value):
    found = whole("epoch", value, 0, 7)
    assert found == 7
    assert type(found) is int


@pytest.mark.parametrize(
    "value", [True, 7.0, "7", None, np.bool_(True), np.array([7, 8]), np.array(7.0), [7]]
)
def test_what_is_no_whole_number_is_refused_and_shown(value):
    with pytest.raises(ConfigError) as caught:
        whole("epoch", value)
    assert str(caught.value) == f"expected epoch as a whole number, got {value!r}"


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((1,), "as a whole number from 1 on, got 0"),
        ((1, 9), "as a whole number from 1 to 9, got 0"),
    ],
)
def test_the_message_says_the_range(bounds, text):
    with pytest.raises(ConfigError, match=f"^expected epoch {text}$"):
        whole("epoch", 0, *bounds)


def test_what_stands_in_for_a_class_of_another_library_raises_what_its_users_catch():
    assert whole_value("rank", np.int32(3), 0, 3) == 3
    with pytest.raises(ValueError, match=r"^expected rank as a whole number from 0 to 3, got 4$"):
        whole_value("rank", 4, 0, 3)


def test_a_rank_of_any_integer_type_is_an_int():
    assert list(map(type, rank_of(np.int64(1), np.int32(2)))) == [int, int]


@pytest.mark.parametrize("rank", [-1, 2, 1.0, "1", None, True])
def test_a_rank_that_is_none_is_refused_and_shown(rank):
    with pytest.raises(ConfigError) as caught:
        rank_of(rank, 2)
    text = f"expected a rank from 0 to 1, because world_size is 2, got {rank!r}"
    assert str(caught.value) == text


@pytest.mark.parametrize("world_size", [0, -1, 2.0, "2"])
def test_a_world_size_that_is_none_is_refused_by_its_own_name(world_size):
    with pytest.raises(ConfigError, match="expected world_size as a whole number from 1 on, got"):
        rank_of(0, world_size)
