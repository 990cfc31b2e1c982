"""One word in the spec decides about the format of the shards, and about nothing else."""

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.loader import DataLoader
from trainfeed.readers import open_dataset
from trainfeed.samples import Schema, TypedCodec
from trainfeed.tfrecord import ExampleCodec, TFRecordReader
from trainfeed.versions.chunk_index import ExampleRun
from trainfeed.versions.version import CHUNKS

__all__ = ["project"]

FIXED = """value: {dtype: float32}
  tiny: {dtype: float16, optional: true}
  exact: {dtype: float64}
  unsigned: {dtype: uint64}
  small: {dtype: int8, shape: [2]}
  flag: {dtype: bool, optional: true}
  image: {dtype: uint8, shape: [2, 3]}
  wide: {dtype: uint16, shape: [3], optional: true}
"""
VARIABLE = """  text: {dtype: str}
  raw: {dtype: bytes, optional: true}
  path: {dtype: float64, shape: [null, 2]}
  steps: {dtype: int32, shape: [null], optional: true}
"""
FIXED_CODE = """"value": row["value"],
        "tiny": None if n else row["value"] / 8, "exact": 0.1 + row["value"],
        "unsigned": 2**64 - 1 - int(row["value"]), "small": [-128, 127],
        "flag": None if row["value"] % 3 else row["value"] % 2 == 0,
        "image": [[n, 1, 2], [3, 4, 255]],
        "wide": [0, 1, 65535] if row["value"] % 2 else None,
"""
VARIABLE_CODE = """        "text": "é" * (int(row["value"]) % 4),
        "raw": None if n else b"\\\\0" * int(row["value"] % 3),
        "path": [[0.1, row["value"]]] * (int(row["value"]) % 3),
        "steps": None if row["value"] % 5 else list(range(int(row["value"]) % 4)),
"""


@pytest.fixture(params=["fixed", "variable"])
def kinds(project, request):
    """A data set with fields of all kinds, in chunks of a few samples."""
    fields, code = FIXED, FIXED_CODE
    if request.param == "variable":
        fields, code = FIXED + VARIABLE, FIXED_CODE + VARIABLE_CODE
    project.edit("value: {dtype: float32}\n", fields)
    project.edit('"value": row["value"], ', code, "preprocess.py")
    project.edit("codec: zstd", "codec: zstd, chunk_bytes: 1KiB")
    return project


def both(project):
    """The version as RecordIO, and the same one as TFRecord."""
    project.build()
    other = project.elsewhere("tfrecord")
    other.edit("codec: zstd", "format: tfrecord")
    other.build()
    return project.version(), other.version()


@pytest.fixture
def shard(project):
    """A shard of a TFRecord set with a run per sample, to be damaged."""
    project.edit("codec: zstd", "format: tfrecord, chunk_bytes: 1B")
    project.prebuilt()
    path = project.version().shard_paths("train")[0]
    path.chmod(0o644)
    return path


def samples(version, split="train"):
    return list(open_dataset(version.path, split=split).reader()())


def assert_equal_samples(found, expected):
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        for name in one:
            assert type(one[name]) is type(other[name])
            assert getattr(one[name], "dtype", None) == getattr(other[name], "dtype", None)
            np.testing.assert_array_equal(one[name], other[name])


def index(version):
    return pa.ipc.open_file(version.path / CHUNKS).read_all()


def test_both_formats_hold_the_same_samples_in_the_same_order(kinds):
    recordio, tfrecord = both(kinds)
    for split in ("train", "eval"):
        assert_equal_samples(samples(tfrecord, split), samples(recordio, split))
    assert tfrecord.manifest.content_digest == recordio.manifest.content_digest
    assert tfrecord.manifest.ledger == recordio.manifest.ledger
    assert tfrecord.positions() == recordio.positions()
    assert tfrecord.manifest.fingerprint != recordio.manifest.fingerprint
    statistics = [(each.path / "statistics.json").read_bytes() for each in (tfrecord, recordio)]
    assert statistics[0] == statistics[1]
    tfrecord.verify()


def test_runs_are_cut_as_chunks_are_and_say_that_they_hold_examples(kinds):
    recordio, tfrecord = both(kinds)
    same = ["split", "shard", "raw_bytes", "num_records", "first_ordinal"]
    assert index(tfrecord).select(same) == index(recordio).select(same)
    assert set(index(tfrecord)["codec"].to_pylist()) == {64}
    chunks = tfrecord.chunks("train")
    assert len(chunks) > 5
    assert all(isinstance(chunk.info, ExampleRun) for chunk in chunks)


def test_shards_are_plain_tfrecord_files(kinds):
    _, version = both(kinds)
    codec = ExampleCodec(version.schema)
    found = [
        codec.decode(record)
        for path in version.shard_paths("train")
        for record in TFRecordReader(path)
    ]
    typed = TypedCodec(version.schema)
    assert list(map(typed.encode, found)) == list(map(typed.encode, samples(version)))


def test_the_records_digest_is_over_typed_records(kinds):
    """The samples of the shards, encoded as typed records, give the digest of the RecordIO set."""
    recordio, version = both(kinds)
    typed = TypedCodec(Schema.from_json(version.manifest.fields))
    encoded = [typed.encode(sample) for sample in samples(version)]
    assert encoded == [typed.encode(sample) for sample in samples(recordio)]
    digests = [
        [shard.records_sha256 for shard in each.manifest.splits["train"].shards]
        for each in (recordio, version)
    ]
    assert digests[0] == digests[1]


def test_two_builds_write_equal_bytes(kinds):
    _, version = both(kinds)
    again = kinds.elsewhere("again")
    again.build()
    assert again.version().manifest_sha256 == version.manifest_sha256


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"verify": "never"}])
def test_a_shuffled_loader_gives_the_order_of_the_other_format(kinds, options):
    batches = []
    for version in both(kinds):
        dataset = open_dataset(version.path, split="train")
        with DataLoader(dataset, 7, shuffle=True, seed=3, **options) as loader:
            batches.append([[str(batch[name]) for name in batch] for batch in loader])
            state = loader.state_dict()
    assert batches[0] == batches[1]
    dataset = open_dataset(kinds.version().path, split="train")
    with DataLoader(dataset, 7, shuffle=True, seed=3) as loader:
        loader.load_state_dict(state)


def test_arrays_of_both_formats_are_equal(project):
    columns = [
        list(open_dataset(version.path, split="train").iter_arrays(rank=1, world_size=2))
        for version in both(project)
    ]
    for one, other in zip(*columns, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], strict=True)


def test_a_flipped_byte_is_found(project, shard):
    data = shard.read_bytes()
    for place in range(0, len(data), 29):
        shard.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(FormatError, match=shard.name):
            project.version().verify()
        with pytest.raises(FormatError, match=shard.name):
            samples(project.version())
        with (
            DataLoader(open_dataset(project.version().path, split="train"), 4) as loader,
            pytest.raises(FormatError, match=shard.name),
        ):
            list(loader)


def test_a_shard_that_was_cut_is_found(project, shard):
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ChecksumError, match="bytes, got"):
        project.version().verify()
    with pytest.raises(TruncatedError, match=shard.name):
        samples(project.version())


def test_runs_that_changed_places_are_found(project, shard):
    """Each of them is sound; only the index knows where it belongs."""
    first, second = (chunk.info for chunk in project.version().chunks("train")[:2])
    data = shard.read_bytes()
    cut = first.stored_bytes, first.stored_bytes + second.stored_bytes
    shard.write_bytes(data[cut[0] : cut[1]] + data[: cut[0]] + data[cut[1] :])
    assert list(TFRecordReader(shard))
    with pytest.raises(ChecksumError, match="SHA-256"):
        project.version().verify()
    with pytest.raises(ChecksumError, match="CRC-32"):
        samples(project.version())


def test_an_empty_split_is_an_empty_file(project):
    project.edit("train: 0.8, eval: 0.2", "train: 0.999999, eval: 0.000001")
    project.edit("codec: zstd", "format: tfrecord")
    project.build()
    version = project.version()
    assert [path.stat().st_size for path in version.shard_paths("eval")] == [0]
    assert samples(version, "eval") == []
