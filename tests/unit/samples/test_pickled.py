"""Pickles: read when asked for, and nothing in them but plain values and arrays."""

from __future__ import annotations

import collections
import datetime
import os
import pickle
import subprocess

import numpy as np
import pytest

from trainfeed.errors import ConfigError, FormatError
from trainfeed.samples import PickleCodec

CODEC = PickleCodec(allow_pickle=True)


@pytest.mark.parametrize("switch", [False, None, 1, "yes"])
def test_nothing_but_true_switches_it_on(switch):
    with pytest.raises(ConfigError, match="allow_pickle=True"):
        PickleCodec(allow_pickle=switch)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_old_samples_are_read(protocol):
    sample = (np.arange(784, dtype="f8"), 5, [1.5, "é", b"b", None, {"k": {1}}], np.float32(2))
    image, *rest = CODEC.decode(pickle.dumps(sample, protocol=protocol))
    assert np.array_equal(image, sample[0])
    assert image.dtype == "f8"
    assert tuple(rest) == sample[1:]


def test_text_of_python_2_is_read():
    assert CODEC.decode(b"(S'caf\\xe9'\nI5\ntp0\n.") == ("café", 5)


def test_what_is_written_is_read():
    assert CODEC.decode(CODEC.encode((1, "a"))) == (1, "a")


class Command:
    def __reduce__(self):
        return os.system, ("exit 1",)


@pytest.mark.parametrize(
    "value",
    [
        Command(),
        datetime.date(2020, 1, 1),
        subprocess.Popen,
        print,
        eval,
        getattr,
        np.load,
        np.save,
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_anything_else_is_refused_by_its_name(value):
    with pytest.raises(FormatError, match="the pickle names"):
        CODEC.decode(pickle.dumps([value]))


@pytest.mark.parametrize(
    "record",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cposix\nsystem\n(S'true'\ntR.",
        b"cnumpy.core.multiarray\nfromfile\n.",
        b"cbuiltins\ncomplex.__class__\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x10complex.__init__\x93.",
        b"Pname\n.",
        b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"",
        b"not a pickle",
    ],
)
def test_hostile_and_damaged_pickles_are_format_errors(record):
    with pytest.raises(FormatError):
        CODEC.decode(record)


def test_every_prefix_and_every_longer_record_is_a_format_error():
    record = CODEC.encode((np.arange(3), collections.OrderedDict(a=1)))
    for end in range(len(record)):
        with pytest.raises(FormatError):
            CODEC.decode(record[:end])
    with pytest.raises(FormatError, match="1 bytes follow"):
        CODEC.decode(record + b".")
