"""Lines of digits: those that become samples, and the reasons of the others."""

from base64 import b64encode

import numpy as np
import pytest

from examples.digits.images import Digit
from examples.digits.planted import KINDS, break_line, sound_line
from trainfeed.preprocessing import Record, Reject

PIXELS = bytes(n % 17 for n in range(64))


@pytest.fixture
def digits(load):
    return load("preprocess").digits


def record(line):
    return Record(line, None, 0, (), "logs:dt=2024-01-01/part-00000.txt", 0)


@pytest.mark.parametrize("label", range(10))
def test_a_sound_line_is_an_image_and_its_label(digits, label):
    sample = digits(record(sound_line(Digit(0, PIXELS, label))), {})
    assert sample["pixels"].dtype == np.uint8
    assert sample["pixels"].tobytes() == PIXELS
    assert sample["label"] == label


GOOD = b64encode(PIXELS)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no_tab"),
        (None, "no_tab"),
        (GOOD + b" 3", "no_tab"),
        (b"\t3", "wrong_size"),
        (b64encode(PIXELS[1:]) + b"\t3", "wrong_size"),
        (b64encode(PIXELS + b"\0") + b"\t3", "wrong_size"),
        (GOOD[:-1] + b"\t3", "not_base64"),
        (b"*" + GOOD[1:] + b"\t3", "not_base64"),
        (GOOD[:8] + b"\n" + GOOD[8:] + b"\t3", "not_base64"),
        (b64encode(PIXELS[:-1] + b"\x11") + b"\t3", "bad_pixel"),
        (GOOD + b"\t", "bad_label"),
        (GOOD + b"\t10", "bad_label"),
        (GOOD + b"\t-1", "bad_label"),
        (GOOD + b"\t3\t3", "bad_label"),
        (GOOD + b"\t\xd9\xa3", "bad_label"),  # an Arabic 3
        (GOOD + b"\t3\r", "bad_label"),
    ],
)
def test_a_broken_line_is_rejected_with_its_reason(digits, line, reason):
    with pytest.raises(Reject) as caught:
        digits(record(line), {})
    assert caught.value.reason == reason


def test_every_planted_line_is_rejected(digits):
    for number in range(64 * len(KINDS)):
        with pytest.raises(Reject):
            digits(record(break_line(number, Digit(0, PIXELS, 7))), {})
