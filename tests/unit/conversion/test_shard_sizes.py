"""Every reader of a set with a shard that has not the size that its manifest says."""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.unit.conversion.conftest import FIXED, fixed_samples
from trainfeed.adapters import arrow
from trainfeed.compat.paddle.reader import creator
from trainfeed.conversion import (
    ConvertOptions,
    FileFormat,
    SourceOptions,
    convert,
    convert_files,
    merge_files,
)
from trainfeed.conversion import to_shards as _convert_files
from trainfeed.conversion.plan import ConversionRequest, Roots
from trainfeed.conversion.steps import plan_conversion
from trainfeed.core import canonical_json
from trainfeed.damage import DamagePolicy, DamageReport
from trainfeed.errors import ChecksumError, FormatError, NotFoundError, TruncatedError
from trainfeed.loader import DataLoader, RecordFiles, TFRecordFiles
from trainfeed.readers import recordio, tfrecord
from trainfeed.recordio import RandomAccess, RecordIndex, RecordScanner
from trainfeed.samples import SampleReader, TypedCodec
from trainfeed.tfrecord import ExampleCodec, TFRecordAccess, TFRecordIndex, TFRecordReader

SHARD, SHARDS, SAMPLES = "p-00002-of-00003", 4, 120
LOOSE = DamagePolicy.skip_chunk(max=9)


def loaded(files, **options):
    with DataLoader(files, batch_size=7, **options) as loader:
        return [label for batch in loader for label in batch["label"].tolist()]


def counted(files):
    with DataLoader(files, batch_size=7) as loader:
        return len(loader)


def in_steps(folder):
    work = folder.parent / "work"
    request = ConversionRequest(
        f"{folder}/p-*", str(folder.parent / "out"), 2, "q", 0, FileFormat.RECORDIO, "none", "run"
    )
    plan_conversion(request, Roots((folder.parent,), (folder.parent,), work))


def shards_of(folder):
    return [folder / f"p-{index:05d}-of-00003" for index in range(SHARDS)]


def by_number(access, folder):
    for path in shards_of(folder):
        with access(path) as records:
            list(map(records.get, range(len(records))))


def ranked(folder):
    for rank in range(2):
        list(recordio(f"{folder}/p-*", FIXED, rank=rank, world_size=2)())


RECORDIO = {
    "RecordScanner": lambda f: list(RecordScanner(f"{f}/p-*")),
    "readers.recordio": lambda f: list(recordio(f"{f}/p-*")()),
    "readers.recordio of ranks": ranked,
    "paddle.reader.creator.RecordIO": lambda f: list(creator.RecordIO(f"{f}/p-*")()),
    "SampleReader": lambda f: list(SampleReader(f"{f}/p-*", FIXED).iter_batches(7)),
    "SampleReader with threads": lambda f: list(
        SampleReader(f"{f}/p-*", FIXED, threads=2).iter_batches(7)
    ),
    "SampleReader.num_samples": lambda f: SampleReader(f"{f}/p-*", FIXED).num_samples,
    "RandomAccess": lambda f: by_number(RandomAccess, f),
    "DataLoader": lambda f: loaded(RecordFiles(f"{f}/p-*", FIXED)),
    "DataLoader that shuffles": lambda f: loaded(RecordFiles(f"{f}/p-*", FIXED), shuffle=True),
    "DataLoader of maps": lambda f: loaded(RecordFiles(f"{f}/p-*", FIXED, immutable=True)),
    "DataLoader that skips": lambda f: loaded(RecordFiles(f"{f}/p-*", FIXED), max_skipped_chunks=3),
    "len of a DataLoader": lambda f: counted(RecordFiles(f"{f}/p-*", FIXED)),
    "adapters.arrow": lambda f: arrow(
        DataLoader(RecordFiles(f"{f}/p-*", FIXED), batch_size=7)
    ).read_all(),
}
TFRECORD = {
    "TFRecordReader": lambda f: list(TFRecordReader(f"{f}/p-*")),
    "TFRecordReader of batches": lambda f: list(TFRecordReader(f"{f}/p-*").iter_batches(7)),
    "readers.tfrecord": lambda f: list(tfrecord(f"{f}/p-*", FIXED)()),
    "TFRecordAccess": lambda f: by_number(TFRecordAccess, f),
    "DataLoader": lambda f: loaded(TFRecordFiles(f"{f}/p-*", FIXED)),
    "DataLoader that shuffles": lambda f: loaded(TFRecordFiles(f"{f}/p-*", FIXED), shuffle=True),
    "len of a DataLoader": lambda f: counted(TFRecordFiles(f"{f}/p-*", FIXED)),
}
BOTH = {
    "convert_files of a glob": lambda f: convert_files(f"{f}/p-*", f.parent / "out", 2, "q"),
    "convert_files of a folder": lambda f: convert_files(f, f.parent / "out", 2, "q"),
    "merge_files": lambda f: merge_files(shards_of(f), f.parent / "out"),
    "the plan of a conversion": in_steps,
}
READERS = [
    *(("recordio", name, read) for name, read in {**RECORDIO, **BOTH}.items()),
    *(("tfrecord", name, read) for name, read in {**TFRECORD, **BOTH}.items()),
]


def places(path, container):
    """Where the pieces of a file start, and its end."""
    if container == "recordio":
        starts = [chunk.offset_bytes for chunk in RecordIndex.load(path).chunks]
    else:
        starts = TFRecordIndex.load(path).offsets.tolist()
    return [*starts, path.stat().st_size]


def cut_between(path, container):
    os.truncate(path, places(path, container)[1])


def cut_inside(path, container):
    os.truncate(path, places(path, container)[1] + 9)


def cut_raw(path, _):
    os.truncate(path, path.stat().st_size - 40)


def emptied(path, _):
    os.truncate(path, 0)


def longer(path, _):
    path.write_bytes(path.read_bytes() * 2)


def missing(path, _):
    path.unlink()


DAMAGES = [cut_between, cut_inside, emptied, longer, missing]


@pytest.fixture
def made(tmp_path):
    def make(container, codec="none"):
        options = ConvertOptions(
            file_format=FileFormat(container), max_chunk_bytes=256 if container == "recordio" else 0
        )
        folder = tmp_path / "set"
        convert(
            folder, fixed_samples(SAMPLES), SHARDS, "p", schema=FIXED, options=options, codec=codec
        )
        return folder

    return make


@pytest.mark.parametrize(
    ("container", "read"),
    [pytest.param(kind, read, id=f"{kind}-{name}") for kind, name, read in READERS],
)
def test_a_whole_set_is_read(made, container, read):
    read(made(container))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("container", "read"),
    [pytest.param(kind, read, id=f"{kind}-{name}") for kind, name, read in READERS],
)
def test_a_shard_of_another_size_is_an_error_that_names_it_and_both_sizes(
    made, container, read, damage
):
    folder = made(container)
    stated = (folder / SHARD).stat().st_size
    damage(folder / SHARD, container)
    with pytest.raises((FormatError, NotFoundError), match=SHARD) as caught:
        read(folder)
    if damage is not missing:
        found = (folder / SHARD).stat().st_size
        assert f"expected {stated} bytes" in str(caught.value)
        assert f"got {found}" in str(caught.value)


def tolerated(container, pattern, policy):
    """Labels that a tolerant pass reads, and its report."""
    if container == "tfrecord":
        reader = TFRecordReader(pattern, on_damage=policy)
        decode = ExampleCodec(FIXED).decode
    else:
        reader = RecordScanner(pattern, on_damage=policy)
        decode = TypedCodec(FIXED).decode
    return [decode(record)["label"].item() for record in reader], reader.report


def samples_of(pattern, policy):
    """What ``SampleReader`` reads, and its report."""
    report = DamageReport()
    batches = SampleReader(pattern, FIXED).iter_batches(7, on_damage=policy, report=report)
    return [label for batch in batches for label in batch["label"].tolist()], report


@pytest.mark.parametrize("damage", DAMAGES[:-1])
@pytest.mark.parametrize("container", ["recordio", "tfrecord"])
def test_a_tolerant_reader_gets_what_is_whole_and_reports_one_range_up_to_the_larger_size(
    made, container, damage
):
    folder = made(container)
    path, pattern = folder / SHARD, f"{folder}/p-*"
    whole, report = tolerated(container, pattern, LOOSE)
    assert (len(whole), report.dropped) == (SAMPLES, [])
    alone, _ = tolerated(container, path, LOOSE)
    stated, second = path.stat().st_size, places(path, container)[1]
    damage(path, container)
    found = path.stat().st_size
    labels, report = tolerated(container, pattern, LOOSE)
    (dropped,) = report.dropped
    start = {longer: stated, emptied: 0}.get(damage, second)
    assert (dropped.path, dropped.start_bytes) == (str(path), start)
    assert (dropped.end_bytes, dropped.num_records) == (max(stated, found), None)
    first = whole.index(alone[0])
    rest = whole[:first] + whole[first + len(alone) :]
    assert [label for label in labels if label in rest] == rest
    kept = [label for label in labels if label not in rest]
    assert kept == alone[: len(kept)]
    assert (len(kept) == len(alone)) == (damage is longer)
    assert bool(kept) == (damage is not emptied)
    if container == "recordio":
        assert samples_of(pattern, LOOSE)[0] == labels
        assert samples_of(pattern, LOOSE)[1].dropped == report.dropped


@pytest.mark.parametrize("container", ["recordio", "tfrecord"])
def test_a_shard_of_another_size_counts_towards_what_may_be_dropped(made, container):
    folder = made(container)
    emptied(folder / SHARD, container)
    with pytest.raises(TruncatedError, match="0 may be"):
        tolerated(container, f"{folder}/p-*", DamagePolicy.skip_chunk(max=0))


@pytest.mark.parametrize("damage", DAMAGES[:-1])
@pytest.mark.parametrize("container", ["recordio", "tfrecord"])
def test_a_tolerated_torn_tail_is_a_shorter_shard_and_never_a_longer_one(made, container, damage):
    folder = made(container)
    damage(folder / SHARD, container)
    policy = DamagePolicy.tolerate_truncated_tail()
    if damage is longer:
        with pytest.raises(FormatError, match=SHARD):
            tolerated(container, folder / SHARD, policy)
    else:
        labels, report = tolerated(container, folder / SHARD, policy)
        assert len(labels) < SAMPLES // SHARDS
        assert report.num_chunks == 1


@pytest.mark.parametrize("damage", [cut_raw, emptied, longer])
def test_a_compressed_tfrecord_shard_of_another_size_is_one_dropped_range(made, damage):
    folder = made("tfrecord", "gzip")
    damage(folder / SHARD, "tfrecord")
    with pytest.raises(FormatError, match=SHARD):
        TFRecordReader(f"{folder}/p-*")
    labels, report = tolerated("tfrecord", f"{folder}/p-*", LOOSE)
    assert report.num_chunks == 1
    assert (len(labels) == SAMPLES) == (damage is longer)


@pytest.mark.parametrize(
    ("container", "passes"),
    [
        ("recordio", lambda p: RecordScanner(p).__iter__),
        ("recordio", recordio),
        ("recordio", lambda p: recordio(p, rank=1, world_size=2)),
        ("recordio", lambda p: partial(SampleReader(p, FIXED).iter_batches, 7)),
        ("recordio", lambda p: DataLoader(RecordFiles(p, FIXED), batch_size=7).__iter__),
        ("tfrecord", lambda p: TFRecordReader(p).__iter__),
        ("tfrecord", lambda p: tfrecord(p, FIXED)),
        ("tfrecord", lambda p: DataLoader(TFRecordFiles(p, FIXED), batch_size=7).__iter__),
    ],
)
def test_a_shard_that_is_cut_between_two_passes_is_found_by_the_second(made, container, passes):
    folder = made(container)
    start = passes(f"{folder}/p-*")
    assert sum(1 for _ in start())
    cut_between(folder / SHARD, container)
    with pytest.raises(TruncatedError, match=SHARD):
        list(start())


def test_a_shard_that_is_cut_while_a_set_is_converted_is_found_before_anything_is_published(
    made, monkeypatch
):
    folder = made("recordio")
    add, paths = _convert_files.add_file, []

    def cut_and_add(runs, file, target):
        paths.append(file.path)
        add(runs, file, target)
        cut_between(folder / SHARD, "recordio") if file.path.name == SHARD else None

    monkeypatch.setattr(_convert_files, "add_file", cut_and_add)
    with pytest.raises(TruncatedError, match=SHARD):
        convert_files(f"{folder}/p-*", folder.parent / "out", 2, "q")
    assert len(paths) == SHARDS
    assert not (folder.parent / "out").exists()


def test_one_shard_of_a_set_that_was_written_again_is_read_by_its_new_size(made):
    folder = made("recordio")
    reader = recordio(folder / SHARD, FIXED)
    assert len(list(reader())) == SAMPLES // SHARDS
    convert(folder, fixed_samples(2 * SAMPLES), SHARDS, "p", schema=FIXED)
    assert len(list(reader())) == 2 * SAMPLES // SHARDS


def test_a_file_that_is_named_as_a_shard_needs_no_manifest(made):
    folder = made("recordio")
    (folder / "p.shards.json").unlink()
    cut_between(folder / SHARD, "recordio")
    assert list(RecordScanner(folder / SHARD))
    (folder / "MANIFEST.json").write_text("of another program")
    assert list(RecordScanner(folder / SHARD))


def test_a_manifest_that_was_changed_is_no_statement_of_sizes(made):
    folder = made("recordio")
    path = folder / "p.shards.json"
    path.write_bytes(path.read_bytes().replace(b'"bytes": ', b'"bytes": 1'))
    with pytest.raises(ChecksumError, match=r"p\.shards\.json"):
        RecordScanner(f"{folder}/p-*")


def calls_of(monkeypatch, owner, name):
    """The arguments of every call of a function from now on."""
    found, function = [], getattr(owner, name)

    def noting(*arguments, **options):
        found.append(arguments)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, noting)
    return found


@pytest.mark.parametrize("num_shards", [5, 50])
def test_a_manifest_is_parsed_as_often_for_many_shards_as_for_one(
    tmp_path, monkeypatch, num_shards
):
    convert(tmp_path, fixed_samples(100), num_shards, "p", schema=FIXED)
    parsed = calls_of(monkeypatch, canonical_json, "loads")
    _convert_files.open_inputs(sorted(tmp_path.glob("p-*")), SourceOptions())
    for path in sorted(tmp_path.glob("p-*")):
        list(recordio(path)())
        list(RecordScanner(path))
    # Once for the sizes, and once for the schema.
    assert len(parsed) == 2
