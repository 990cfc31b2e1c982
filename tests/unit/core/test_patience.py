"""Calls that are made again, how often and for which errors; and calls that are given up."""

import itertools
import math
import threading

import pytest

from trainfeed.core.patience import Patience, answer_within
from trainfeed.errors import CommitUnknownError, FormatError, StorageError


def called(patience, *errors):
    """The value of a call that raises the errors one after another, and the number of calls."""
    numbers = itertools.count(1)
    left = list(errors)

    def call():
        number = next(numbers)
        if left:
            raise left.pop(0)
        return number

    return patience.call(call)


def test_pauses_double_up_to_the_longest_and_calls_are_bounded():
    waited = []
    patience = Patience(calls=5, first_pause_s=1.0, longest_pause_s=3.0, pause=waited.append)
    assert called(patience, *[StorageError("away")] * 4) == 5
    assert waited == [1.0, 2.0, 3.0, 3.0]
    with pytest.raises(StorageError, match="away"):
        called(patience, *[StorageError("away")] * 5)


def test_the_pause_that_is_asked_for_counts_up_to_a_bound():
    waited, asked = [], iter([0.0, 7.0, 100.0])
    patience = Patience(
        longest_asked_s=30.0, asked=lambda _: next(asked), pause=waited.append, first_pause_s=1.0
    )
    called(patience, *[StorageError("away")] * 3)
    assert waited == [1.0, 7.0, 30.0]


@pytest.mark.parametrize("error", [FormatError("bytes"), CommitUnknownError("name"), KeyError("x")])
def test_an_error_that_another_call_cannot_solve_is_raised_at_once(error):
    waited = []
    with pytest.raises(type(error)):
        called(Patience(pause=waited.append), error)
    assert not waited


def test_no_pause_is_begun_that_would_end_too_late():
    waited = []
    patience = Patience(calls=math.inf, first_pause_s=1.0, seconds=5.0, pause=waited.append)
    with pytest.raises(StorageError):
        called(patience, *[StorageError("away")] * 9)
    assert waited == [1.0, 2.0, 4.0]


def test_a_pause_that_says_so_ends_the_patience():
    with pytest.raises(StorageError):
        called(Patience(pause=lambda _: True), StorageError("closed"))


def test_random_pauses_are_half_of_the_pause_or_more():
    waited = []
    patience = Patience(
        calls=100, first_pause_s=2.0, longest_pause_s=2.0, is_random=True, pause=waited.append
    )
    called(patience, *[StorageError("away")] * 99)
    assert 1.0 <= min(waited) < max(waited) <= 2.0


def test_calls_without_end_go_on_with_the_longest_pause():
    waited = []
    patience = Patience(calls=math.inf, longest_pause_s=3.0, pause=waited.append)
    called(patience, *[StorageError("away")] * 1500)
    assert waited[-1] == 3.0


def test_a_call_that_takes_too_long_is_left_and_does_not_keep_the_process_alive():
    released, callers = threading.Event(), []

    def call(number):
        callers.append(threading.current_thread())
        released.wait()
        return number

    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
        answer_within(0.01, call, 3)
    assert callers[0].daemon
    released.set()
    assert answer_within(60, call, 3) == 3
    with pytest.raises(FormatError, match="broken"):
        answer_within(60, called, Patience(calls=1), FormatError("broken"))
    with pytest.raises(RuntimeError, match="panic"):
        answer_within(60, called, Patience(calls=1), KeyboardInterrupt("panic"))
