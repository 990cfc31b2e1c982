"""Files of every format of others, damaged at random: an error of ours, and never another one."""

from __future__ import annotations

import random
import zipfile

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.conversion.formats.test_webdataset import MEMBERS, tar_of
from trainfeed.conversion import ColumnOptions, Format, SourceOptions, open_sample_file
from trainfeed.errors import TrainFeedError

NESTED = ColumnOptions(("s",), ("l",))
TRIES = 150


def arrow(path):
    table = pa.table({"x": [1, 2, 3], "s": [{"a": "x"}] * 3, "l": [["a", None]] * 3})
    with pa.ipc.new_stream(path, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1):
            writer.write_batch(batch)


def structured(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(4, [("x", ">f4", (2,)), ("t", "U2"), ("ok", "?")]))


def packed(path, compression):
    np.save(path.with_suffix(".npy"), np.arange(9, dtype=">i4").reshape(3, 3))
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.write(path.with_suffix(".npy"), "x.npy")
        archive.write(path.with_suffix(".npy"), "y.npy")


MAKERS = {
    "arrow": (Format.ARROW, arrow),
    "webdataset": (Format.WEBDATASET, lambda path: tar_of(path, MEMBERS)),
    "npy": (Format.NPY, structured),
    "npz": (Format.NPZ, lambda path: packed(path, zipfile.ZIP_STORED)),
    "npz, deflated": (Format.NPZ, lambda path: packed(path, zipfile.ZIP_DEFLATED)),
    "csv": (Format.CSV, lambda path: path.write_text('a;"b"\n1;"é;"\n' * 5)),
}


def damaged(data, rng):
    """The bytes with some of them changed, taken out, doubled or cut."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        stop = min(len(data), start + rng.choice((1, 1, 4, 8, 512)))
        match rng.randrange(5):
            case 0:
                data[start:stop] = bytes(
                    rng.choice((0, 0xFF, 0x80, 0x7F)) for _ in data[start:stop]
                )
            case 1:
                data[start:stop] = rng.randbytes(stop - start)
            case 2:
                del data[start:stop]
            case 3:
                data[start:start] = data[start:stop]
            case 4:
                data = data[: max(start, 1)]
    return bytes(data)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("file_format", "make"), MAKERS.values(), ids=MAKERS)
def test_a_damaged_file_is_an_error_of_ours_or_no_error(tmp_path, file_format, make):
    path, rng = tmp_path / "a", random.Random(20)
    make(path)
    whole = path.read_bytes()
    columns = NESTED if file_format is Format.ARROW else ColumnOptions()
    options = SourceOptions(file_format=file_format, columns=columns)
    outcomes = set()
    for _ in range(TRIES):
        path.write_bytes(damaged(whole, rng))
        try:
            for _ in open_sample_file(path, options).samples():
                pass
            outcomes.add("read")
        except TrainFeedError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
