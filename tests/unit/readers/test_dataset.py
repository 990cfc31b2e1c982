"""Published versions as one data set: by name, path, range and generation; never by a listing."""

import os
from datetime import date

import numpy as np
import pytest

import trainfeed
from trainfeed.conversion import SourceOptions, convert_files, open_sample_file
from trainfeed.decorators import batch, shuffle
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    WindowError,
    WindowIncompleteError,
)
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.readers import lent_tasks as _dispatched
from trainfeed.readers import open_dataset, recordio
from trainfeed.readers.split_chunks import SplitChunks
from trainfeed.serving.dispatch import TaskList
from trainfeed.versions import Skip, Version, write_skip


@pytest.fixture
def built(project):
    for name in ("2024-03-01", "2024-03-02", "2024-03-03"):
        project.prebuilt(name)
    return project


def read(project, interval, split="train", **options):
    return open_dataset("clicks", interval=interval, split=split, root=project.env.root, **options)


def values(reader, **options):
    return [(float(s["value"]), int(s["label"])) for s in reader.reader(**options)()]


def loaded(reader, **options):
    with DataLoader(reader, batch_size=7, **options) as loader:
        return [label for batch in loader for label in batch["label"].tolist()]


def read_tasks(tasks):
    """Read what a trainer reads that a dispatch master lends all tasks."""
    chunks = SplitChunks(tasks.versions, tasks.split)
    for task in range(tasks.num_tasks):
        for span in tasks.chunks(task):
            list(_dispatched._decoded(span, chunks))


READINGS = {
    "open_dataset": lambda reader, _: values(reader),
    "open_dataset in ranks": lambda reader, _: values(reader, rank=1, world_size=2),
    "DataLoader": lambda reader, _: loaded(reader),
    "DataLoader that shuffles": lambda reader, _: loaded(reader, shuffle=True),
    "recordio of a glob": lambda _, paths: list(recordio(f"{paths[0].parent}/*-of-*")()),
    "RecordFiles": lambda reader, paths: loaded(RecordFiles(paths, reader.schema)),
    "convert_files of the folder": lambda _, paths: convert_files(
        paths[0].parent, paths[0].parents[4] / "out", 2, "q"
    ),
    "Tasks": lambda reader, _: read_tasks(
        TaskList("clicks", reader.split, tuple(reader.versions), chunks_per_task=1)
    ),
}


@pytest.mark.parametrize("left", [0, 0.5, 2])
@pytest.mark.parametrize("reading", READINGS)
def test_a_shard_of_a_version_has_the_size_that_the_manifest_says(built, reading, left):
    reader = read(built, "2024-03-01")
    (version,) = reader.versions
    paths = version.shard_paths("train")
    READINGS[reading](reader, paths)
    content = paths[-1].read_bytes()
    paths[-1].chmod(0o644)
    paths[-1].write_bytes((content * 2)[: int(left * len(content))])
    with pytest.raises(FormatError, match=f"expected {len(content)} bytes") as caught:
        READINGS[reading](read(built, "2024-03-01"), paths)
    assert paths[-1].name in str(caught.value)


def test_a_loader_that_may_skip_chunks_counts_those_that_a_cut_shard_lacks(built):
    whole = loaded(read(built, "2024-03-01"))
    path = read(built, "2024-03-01").versions[0].shard_paths("train")[-1]
    path.chmod(0o644)
    path.write_bytes(b"")
    assert len(loaded(read(built, "2024-03-01"), max_skipped_chunks=9)) < len(whole)


def test_the_manifest_of_a_version_is_read_once_for_all_its_shards(built, monkeypatch):
    folder, opened = read(built, "2024-03-01").versions[0].path, []
    open_version = Version.open
    monkeypatch.setattr(Version, "open", lambda path: opened.append(path) or open_version(path))
    paths = sorted(folder.glob("*-of-*"))
    assert len(paths) > 1
    for path in paths:
        assert open_sample_file(path, SourceOptions()).schema is not None
    assert len(opened) == 1


def test_a_range_is_its_intervals_one_after_another(built):
    days = [values(read(built, f"2024-03-0{d}")) for d in (1, 2, 3)]
    whole = read(built, "2024-03-01/2024-03-03")
    assert values(whole) == [sample for day in days for sample in day]
    assert whole.num_samples == sum(map(len, days))
    assert whole.version == "2024-03-01/g0001,2024-03-02/g0001,2024-03-03/g0001"


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_ranks_stripe_a_range_without_loss_or_overlap(built, world_size):
    whole = read(built, "2024-03-01/2024-03-03")
    expected = values(whole)
    for rank in range(world_size):
        assert values(whole, rank=rank, world_size=world_size) == expected[rank::world_size]


def test_arrays_and_samples_are_the_same_data(built):
    reader = read(built, "2024-03-01")
    columns = list(reader.iter_arrays(rank=1, world_size=2))
    pairs = [pair for c in columns for pair in zip(c["value"], c["label"], strict=True)]
    stacked = [(float(value), int(label)) for value, label in pairs]
    assert stacked == values(reader, rank=1, world_size=2)
    assert all(c["value"].dtype == "float32" for c in columns)
    assert all(c["value"].flags.writeable for c in columns)


def test_a_reader_can_be_called_again(built):
    reader = read(built, "2024-03-01").reader()
    assert list(reader()) == list(reader())


def test_a_pipeline_over_a_version_keeps_its_blocks(built):
    reader = batch(shuffle(read(built, "2024-03-01").reader(), 16), 8)
    blocks = list(reader.blocks())
    assert {len(block["label"]) for block in blocks[:-1]} == {8}
    labels = [float(value) for block in blocks for value in block["value"]]
    assert sorted(labels) == sorted(value for value, _ in values(read(built, "2024-03-01")))


def test_a_generation_is_pinned_or_the_current_one(built):
    built.prebuilt("2024-03-01", rebuild="once more")
    assert read(built, "2024-03-01").version == "2024-03-01/g0002"
    assert read(built, "2024-03-01", generation="g0001").version == "2024-03-01/g0001"
    assert read(built, "2024-03-01").content_digest == built.version().manifest.content_digest


def test_a_day_may_be_a_date(built):
    assert read(built, date(2024, 3, 1)).version == "2024-03-01/g0001"


def test_the_path_of_a_version_needs_no_root(built):
    path = built.version().path
    assert values(trainfeed.open_dataset(path, split="eval")) == values(
        read(built, "2024-03-01", split="eval")
    )


def test_samples_of_variable_size_are_read_and_do_not_stack(project):
    project.edit("label: {dtype: int64}", "label: {dtype: int64}\n  note: {dtype: str}")
    project.edit('"label": n', '"label": n, "note": "é" * n', "preprocess.py")
    project.prebuilt()
    reader = read(project, "2024-03-01")
    assert {len(s["note"]) == int(s["label"]) for s in reader.reader()()} == {True}
    with pytest.raises(ConfigError, match=r"use reader\(\)"):
        next(reader.iter_arrays())


def test_reading_lists_no_folder(built, monkeypatch):
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, lambda *_: pytest.fail("a folder was listed"))
    assert values(read(built, "2024-03-01"))


def test_a_damaged_shard_is_named_with_its_place(built):
    version = built.version()
    shard = version.shard_paths("train")[0]
    shard.chmod(0o644)
    data = bytearray(shard.read_bytes())
    data[30] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ChecksumError, match=shard.name):
        values(read(built, "2024-03-01"))


def test_a_swapped_index_is_refused(built):
    path = built.version().path / "CHUNKS.arrow"
    path.chmod(0o644)
    path.write_bytes((built.version("2024-03-02").path / "CHUNKS.arrow").read_bytes())
    with pytest.raises(ChecksumError, match=r"CHUNKS\.arrow"):
        values(read(built, "2024-03-01"))


def test_a_missing_shard_is_an_error_not_a_short_read(built):
    version = built.version()
    version.shard_paths("train")[0].unlink()
    with pytest.raises(NotFoundError, match="clicks-train-00000"):
        values(read(built, "2024-03-01"))


def test_mistakes_are_named(built):
    with pytest.raises(ConfigError, match="has no split 'test', only eval, train"):
        read(built, "2024-03-01", split="test")
    with pytest.raises(NotFoundError, match=r"no published version of 2024-03-09 .*; build it: "):
        read(built, "2024-03-09")
    with pytest.raises(WindowError, match="to 2024-03-31 starts in 2024-04-01/2024-04-09"):
        read(built, "2024-04-01/2024-04-09")
    with pytest.raises(ConfigError, match="a generation pins one interval"):
        read(built, "2024-03-01/2024-03-02", generation="g0001")
    with pytest.raises(NotFoundError, match=r"name an interval too: open_dataset\('clicks'"):
        open_dataset("clicks", split="train")
    for option in ({"root": built.env.root}, {"generation": "g0001"}):
        with pytest.raises(ConfigError, match="an interval beside generation and root"):
            open_dataset(built.version().path, split="train", **option)
    with pytest.raises(ConfigError, match="expected a rank from 0 to 1"):
        read(built, "2024-03-01").reader(rank=2, world_size=2)


def test_a_range_with_a_missing_interval_is_refused_and_names_it_and_the_command(built):
    (built.folder.interval("2024-03-02") / "g0001.withdrawn").touch()
    built.folder.interval("2024-03-04").mkdir()
    with pytest.raises(WindowIncompleteError) as refused:
        read(built, "2024-03-01/2024-03-05")
    assert refused.value.missing == ("2024-03-02", "2024-03-04", "2024-03-05")
    told = str(refused.value)
    withdrawn = "; clicks/2024-03-02/g0001 is withdrawn; who and why cannot be told: "
    assert withdrawn in told
    for command in (
        "trainfeed restore clicks/2024-03-02/g0001 --why WHY",
        "trainfeed build clicks --interval 2024-03-04/2024-03-05",
    ):
        assert command in told
    assert "lacks 3 of 5 intervals of 2024-03-01/2024-03-05" in told
    assert "--interval 2024-03-02" not in told


def test_missing_intervals_are_skipped_on_demand_and_named_by_the_result(built):
    (built.folder.interval("2024-03-02") / "g0001.withdrawn").touch()
    whole = read(built, "2024-03-01/2024-03-04", missing="skip")
    assert whole.version == "2024-03-01/g0001,2024-03-03/g0001"
    assert (whole.missing, whole.skipped) == (("2024-03-02", "2024-03-04"), ())
    with pytest.raises(NotFoundError, match="no published version of 2024-03-02/2024-03-02 in"):
        read(built, "2024-03-02/2024-03-02", missing="skip")
    with pytest.raises(ConfigError, match="one of fail, skip, got 'list'"):
        read(built, "2024-03-01/2024-03-03", missing="list")


def test_an_interval_that_was_decided_to_be_left_out_is_not_missing(built):
    skip = Skip("2024-03-04", "no logs", "2024-03-08T00:00:00Z", "2024-03-07T00:00:00Z")
    write_skip(built.folder, skip)
    write_skip(built.folder, Skip("2024-03-02", "lifted", "2024-03-08T00:00:00Z", None))
    whole = read(built, "2024-03-01/2024-03-04")
    assert (len(whole.versions), whole.missing, whole.skipped) == (3, (), (skip,))
    with pytest.raises(
        NotFoundError, match="left out: 2024-03-04 on 2024-03-08T00:00:00Z, no logs"
    ):
        read(built, "2024-03-04")


def test_a_month_is_a_range(built):
    with pytest.raises(WindowIncompleteError, match="lacks 28 of 31 intervals of 2024-03: "):
        read(built, "2024-03")
    assert len(read(built, "2024-03", missing="skip").versions) == 3


def test_a_date_that_does_not_exist_is_not_one_to_build(built):
    for text in ("2024-03-33", "2024-03-01/2024-03-32", "2024-13"):
        with pytest.raises(WindowError, match="does not exist"):
            read(built, text)


def test_an_absent_value_of_fixed_size_is_none_in_samples_and_masked_in_arrays(project):
    project.edit(
        "label: {dtype: int64}",
        "label: {dtype: int64}\n"
        "  odd: {dtype: int64, optional: true}\n"
        "  pair: {dtype: float32, shape: [2], optional: true}",
    )
    code = '"odd": n if n % 2 else None, "pair": None if n % 2 else [n, n]'
    project.edit('"label": n', f'"label": n, {code}', "preprocess.py")
    project.prebuilt()
    samples = list(read(project, "2024-03-01").reader()())
    assert {int(sample["label"]) for sample in samples} == {0, 1}
    for sample in samples:
        label = int(sample["label"])
        odd, pair = sample["odd"], sample["pair"]
        assert (odd is None, pair is None) == (not label, bool(label))
        assert odd == 1 if label else pair.tolist() == [0, 0]
        assert not isinstance(pair, np.ma.MaskedArray)
    columns = next(read(project, "2024-03-01").iter_arrays())
    assert columns["odd"].mask.tolist() == (columns["label"] == 0).tolist()


def test_something_else_in_place_of_a_shard_is_refused(built):
    shard = built.version().shard_paths("train")[0]
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(FormatError, match="expected a plain file"):
        values(read(built, "2024-03-01"))


def test_versions_of_different_schemas_are_not_mixed(project):
    project.prebuilt("2024-03-01")
    project.edit("value: {dtype: float32}", "value: {dtype: float64}")
    project.prebuilt("2024-03-02")
    with pytest.raises(ConfigError, match="has another schema"):
        read(project, "2024-03-01/2024-03-02")


def test_a_range_that_is_none_says_what_to_write(built):
    with pytest.raises(ConfigError, match="expected interval='2024-03-01' and generation='g0001'"):
        read(built, "2024-03-01/g0001")
    with pytest.raises(ConfigError, match="from earlier to later"):
        read(built, "2024-03-03/2024-03-01")
