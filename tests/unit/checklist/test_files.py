"""Rows on files: names at their limit, counting without payloads, the command line's bytes."""

import tracemalloc

import numpy as np
import pytest
from typer.testing import CliRunner

from trainfeed.cli._app import app
from trainfeed.conversion import (
    MAX_SHARDS,
    ConvertOptions,
    ShardName,
    SourceOptions,
    convert,
    convert_files,
    open_sample_file,
    process_base64,
    shard_name,
)
from trainfeed.errors import ChecksumError
from trainfeed.readers import recordio
from trainfeed.recordio import Codec, RecordIndex, RecordWriter, read_chunk
from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import TFRecordWriter, decode_example, encode_example, iter_records

SCHEMA = Schema((Field("x", "float32", (3,)), Field("label", "int64"), Field("note", "str")))


def samples():
    return ({"x": [n, 0.5, -n], "label": n, "note": f"é{n}"} for n in range(50))


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


def run(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("codec", Codec)
def test_records_are_counted_and_located_without_their_payload(tmp_path, codec):
    """S10: every payload is damaged, which the index does not see and a reader does."""
    path, rng = tmp_path / "a", np.random.default_rng(0)
    with RecordWriter(path, codec=codec, max_chunk_bytes=1) as writer:
        for _ in range(40):
            writer.write(rng.bytes(100))
    index, data = RecordIndex.load(path), bytearray(path.read_bytes())
    for chunk in index.chunks:
        data[chunk.end_bytes - chunk.stored_bytes // 2] ^= 1
    path.write_bytes(data)
    again = RecordIndex.load(path)
    assert again == index
    assert [again.locate(n) for n in range(40)] == [index.locate(n) for n in range(40)]
    for chunk in again.chunks:
        with pytest.raises(ChecksumError):
            read_chunk(path, chunk)


def test_five_digits_name_a_hundred_thousand_shards():
    """S13: the largest index is 99999."""
    assert MAX_SHARDS == 100_000
    name = shard_name("p", 99_999, MAX_SHARDS)
    assert name == "p-99999-of-99999"
    assert ShardName.parse(name) == ("p", 99_999, 100_000)
    assert ShardName.parse("p-100000-of-100000") is None


@pytest.mark.parametrize("container", ["recordio", "tfrecord"])
def test_the_command_line_makes_the_files_of_the_library(tmp_path, container):
    """S16."""
    convert(tmp_path / "in", samples, 2, "in", schema=SCHEMA)
    options = ConvertOptions(file_format=container)
    convert_files(tmp_path / "in", tmp_path / "library", 3, "p", seed=4, options=options)
    run(
        *("file", "reshard", tmp_path / "in", tmp_path / "command", "--shards", 3),
        *("--prefix", "p", "--seed", 4, "--to", container),
    )
    assert len(contents(tmp_path / "library")) == 4
    assert contents(tmp_path / "command") == contents(tmp_path / "library")


def test_only_the_prefix_of_the_path_differs(tmp_path):
    """S19: one line of code, wherever the files lie."""
    found = []
    for place in ("here", "elsewhere/deep"):
        convert(tmp_path / place, samples, 3, "p", schema=SCHEMA)
        reader = recordio(str(tmp_path / place / "p-*-of-*"))
        found.append([(sample["note"], sample["x"].tobytes()) for sample in reader()])
    assert found[0] == found[1]
    assert len(found[0]) == 50


def test_the_base64_command_has_its_four_options(tmp_path):
    """S54."""
    (tmp_path / "part").write_text("".join(f"aGVsbG8=\t{n}\n" for n in range(7)))
    (tmp_path / "list").write_text("part\n")
    listed = run("process-base64", "--help")
    assert all(name in listed for name in ("--data_dir", "--file_list", "--nranks", "--help"))
    run("process-base64", "--data_dir", tmp_path, "--file_list", "list", "--nranks", 3)
    names = [f"base64_rank_{rank}" for rank in range(3)]
    assert [len((tmp_path / name).read_text().splitlines()) for name in names] == [3] * 3
    assert (tmp_path / "list").read_text().split() == names


def test_rows_of_images_are_shuffled_in_bounded_memory(tmp_path):
    """S55: twice the rows need no more memory."""

    def peak(num_rows):
        folder = tmp_path / str(num_rows)
        folder.mkdir()
        row = "A" * 20_000
        (folder / "part").write_text("".join(f"{row}\t{n}\n" for n in range(num_rows)))
        (folder / "list").write_text("part\n")
        options = ConvertOptions(memory_bytes=1 << 18)
        tracemalloc.start()
        process_base64(folder, "list", 2, options=options)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(20)  # imports and caches
    small, large = peak(200), peak(400)
    assert large < small * 1.3
    assert large < 400 * 20_000 / 2


def test_a_click_is_label_and_feature_bytes_in_one_record(tmp_path):
    """S65: both are in the record; dtype and shape travel with the file."""
    schema = Schema((Field("label", "int64"), Field("feature", "float64", (4,))))
    feature = np.array([0.1, -0.0, 1e300, 5e-324])
    options = ConvertOptions(file_format="tfrecord")
    made = ({"label": 1, "feature": feature} for _ in range(1))
    convert(tmp_path, lambda: made, 1, "clicks", schema=schema, options=options)
    path = tmp_path / "clicks-00000-of-00000"
    with path.open("rb") as file:
        (record,) = iter_records(file)
    features = decode_example(record)
    assert features["label"].tolist() == [1]
    assert features["feature"] == [feature.tobytes()]
    # A reader that is told nothing.
    (sample,) = open_sample_file(path, SourceOptions()).samples()
    assert (sample["feature"].dtype, sample["feature"].shape) == (np.float64, (4,))
    assert sample["feature"].tobytes() == feature.tobytes()


def test_the_older_calls_write_a_record_file(tmp_path):
    """S62: a writer by path and options, ``write`` and ``close``."""
    writer = TFRecordWriter(tmp_path / "a", "GZIP")
    writer.write(encode_example({"label": 1}))
    writer.close()
    with (tmp_path / "a").open("rb") as file:
        assert [decode_example(r)["label"].tolist() for r in iter_records(file)] == [[1]]
