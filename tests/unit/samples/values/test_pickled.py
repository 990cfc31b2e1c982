"""Pickles: read only on request, and only plain values and arrays."""

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


def pickled_array(name, state, data, shape=(1,)):
    """An array of a dtype that is given a state of the writer's choice, as a pickle."""

    class Dtype:
        def __reduce__(self):
            return np.dtype, (name, False, True), state

    class Array:
        def __reduce__(self):
            make = np._core.multiarray._reconstruct
            return make, (np.ndarray, (0,), b"b"), (1, shape, Dtype(), False, data)

    return pickle.dumps(Array())


FIELDS = {"f": (np.dtype("O"), 0)}
HARMFUL = {
    # Reading its field would follow an address that the pickle chose.
    "object field": ("V8", (3, "|", None, ("f",), FIELDS, 8, 1, 0)),
    "field": ("V8", (3, "|", None, ("f",), {"f": (np.dtype("i8"), 0)}, 8, 1, 0)),
    "array of objects": ("V8", (3, "|", (np.dtype("O"), (1,)), None, None, 8, 1, 0)),
    "objects": ("O", (3, "|", None, None, None, -1, -1, 63)),
    "bytes": ("V8", (3, "|", None, None, None, 8, 1, 0)),
    "flags of objects": ("S8", (3, "|", None, None, None, 8, 1, 63)),
    "size below zero": ("S8", (3, "|", None, None, None, -8, 1, 0)),
    "short state": ("S8", (3, "|")),
    "no state": ("S8", {"fields": FIELDS}),
}


@pytest.mark.parametrize("case", HARMFUL)
def test_a_dtype_with_fields_or_objects_in_its_state_is_refused(case):
    with pytest.raises(FormatError):
        CODEC.decode(pickled_array(*HARMFUL[case], b"A" * 8))


def test_a_dtype_that_is_made_of_anything_but_its_name_is_refused():
    class Dtype:
        def __reduce__(self):
            return np.dtype, ([("f", "O")],)

    with pytest.raises(FormatError, match="made from list"):
        CODEC.decode(pickle.dumps(Dtype()))


@pytest.mark.parametrize("value", [
    np.arange(3, dtype=">i4"), np.array(["a", "é"]), np.array([b"x", b"yy"]),
    np.array(["2020-01-01"], "M8[D]"), np.zeros((2, 3), np.complex64), np.array([True]),
    np.float16(0.5), np.datetime64("2020-01-01T00:00"), np.asfortranarray(np.ones((2, 2))),
], ids=lambda value: value.dtype.str)  # fmt: skip
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_numbers_text_and_times_come_back(value, protocol):
    found = CODEC.decode(pickle.dumps([value, value.dtype], protocol=protocol))
    # Of the older protocols, numpy gives arrays in the byte order of the machine.
    assert found[0].dtype.newbyteorder("=") == value.dtype.newbyteorder("=")
    assert found[1] == value.dtype
    assert np.array_equal(found[0], value)


def test_a_dtype_of_numpy_itself_is_never_changed():
    assert CODEC.decode(pickle.dumps(np.dtype(">f8"))) == ">f8"
    assert np.dtype("f8").isnative
