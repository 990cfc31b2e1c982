"""Broken lines for the logs: what goes wrong between a writer and a file, on purpose.

Every 36th digit is followed by a broken copy of itself; the kinds take turns. A day gets ten.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from examples.digits.images import Digit

__all__ = ["KINDS", "PLANT_EVERY", "break_line", "kind_of", "sound_line"]

PLANT_EVERY: Final = 36
KINDS: Final = (
    "no_tab", "not_base64", "wrong_size", "bad_pixel", "bad_label", "empty_line", "two_in_one",
)  # fmt: skip


def sound_line(digit: Digit) -> bytes:
    """Return the line of a digit, without its end: ``base64 TAB label``."""
    return b"%s\t%d" % (b64encode(digit.pixels), digit.label)


def kind_of(number: int) -> str:
    """Return the kind of the planted line with that number, from 0."""
    return KINDS[number % len(KINDS)]


def break_line(number: int, digit: Digit) -> bytes:
    """Return the line of ``digit``, broken in the way of the planted line with that number."""
    line, encode = sound_line(digit), b64encode
    label = b"\t%d" % digit.label
    return {
        "no_tab": line.replace(b"\t", b" "),
        "not_base64": b"\xff*%$" + line[4:],
        "wrong_size": encode(digit.pixels[: number % 64]) + label,
        "bad_pixel": encode(digit.pixels[:-1] + b"\x11") + label,
        "bad_label": line[:-1] + b"ten",
        "empty_line": b"",
        "two_in_one": line + line,
    }[kind_of(number)]
