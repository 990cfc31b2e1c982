"""Both formats of shards behind one seam: a set in RecordIO does without the code of the other."""

import subprocess
import sys
from pathlib import Path

from tests.unit.pipeline.conftest import project
from tests.unit.pipeline.test_tfrecord_sets import assert_equal_samples, both, kinds
from trainfeed.loader import DataLoader
from trainfeed.readers import open_dataset

__all__ = ["kinds", "project"]

# Prints how much of TFRecord is loaded after each way of reading a version, or the shards of one.
READING = """
import contextlib
import os
import sys

import trainfeed


def loaded(way):
    names = [name for name in sys.modules if name.startswith("trainfeed.tfrecord")]
    print(way, len(names))


path, target, *shards = sys.argv[1:]
dataset = trainfeed.open_dataset(path, split="train")
assert len(list(dataset.reader()())) == dataset.num_samples > 0
if dataset.schema.is_fixed:
    assert list(dataset.iter_arrays())
loaded("open_dataset")
for shuffle in (False, True):
    with trainfeed.DataLoader(dataset, 7, shuffle=shuffle, num_threads=int(shuffle)) as loader:
        assert sum(len(batch["value"]) for batch in loader) == dataset.num_samples
loaded("DataLoader")
if shards:
    assert len(list(trainfeed.readers.recordio(shards, dataset.schema)())) == dataset.num_samples
    files = trainfeed.loader.RecordFiles(shards, dataset.schema)
    with trainfeed.DataLoader(files, 7) as loader:
        assert sum(len(batch["value"]) for batch in loader) == dataset.num_samples
    loaded("RecordFiles")
import trainfeed.cli

for command in ("verify", "show", "head"):
    sys.argv = ["trainfeed", command, target]
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        try:
            trainfeed.cli.main()
        except SystemExit as ended:
            assert not ended.code, (command, ended.code)
    loaded(command)
"""


def loaded_by(version, shards):
    """How many modules of TFRecord a fresh interpreter has loaded after each way of reading."""
    target = f"clicks/{version.path.parent.name}"
    code = [sys.executable, "-c", READING, str(version.path), target, *map(str, shards)]
    root, include = version.path.parents[3], Path(__file__).parents[3] / "include"
    env = {"PYTHONPATH": str(include), "TRAINFEED_ROOT": str(root)}
    done = subprocess.run(code, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {way: int(count) for way, count in map(str.split, done.stdout.splitlines())}


def test_only_a_tfrecord_set_loads_the_modules_of_tfrecord(kinds):
    recordio, tfrecord = both(kinds)
    commands = ["verify", "show", "head"]
    assert loaded_by(recordio, recordio.shard_paths("train")) == dict.fromkeys(
        ["open_dataset", "DataLoader", "RecordFiles", *commands], 0
    )
    found = loaded_by(tfrecord, [])
    assert list(found) == ["open_dataset", "DataLoader", *commands]
    assert min(found.values()) > 0


def test_a_range_may_change_its_format_from_one_interval_to_the_next(kinds):
    plain = kinds.elsewhere("plain")
    names = ["2024-03-01", "2024-03-02"]
    for name in names:
        plain.build(name)
    kinds.build(names[0])
    kinds.edit("codec: zstd", "format: tfrecord")
    kinds.build(names[1])
    opened = [
        open_dataset("clicks", interval="/".join(names), split="train", root=project.env.root)
        for project in (plain, kinds)
    ]
    codecs = {chunk.info.codec for each in opened[1].versions for chunk in each.chunks("train")}
    assert codecs == {17, 64}
    assert_equal_samples(*(list(dataset.reader()()) for dataset in reversed(opened)))
    batches = []
    for dataset in opened:
        with DataLoader(dataset, 7, shuffle=True, seed=3) as loader:
            batches.append([[str(batch[name]) for name in batch] for batch in loader])
    assert batches[0] == batches[1]
