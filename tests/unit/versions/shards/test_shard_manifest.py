"""The manifest beside converted shards: readers and conversions use the same one."""

import json
import subprocess
import sys

import pytest

from trainfeed.conversion import SourceOptions, convert, open_sample_file
from trainfeed.core.canonical_json import seal
from trainfeed.errors import FormatError
from trainfeed.files import manifest_name, shard_name
from trainfeed.readers import recordio
from trainfeed.samples import Field, Schema
from trainfeed.versions.shards import Encoding, ShardManifest, manifests_of, prefixes_in

SCHEMA = Schema((Field("label", "int64"),))


@pytest.fixture
def folder(tmp_path):
    """Two shards ``p`` with three samples of ``SCHEMA``."""
    samples = [{"label": i} for i in range(3)]
    convert(tmp_path / "set", lambda: iter(samples), 2, "p", schema=SCHEMA)
    return tmp_path / "set"


def by_reader(path):
    return list(recordio(path)())


def by_tools(path):
    return list(open_sample_file(path, SourceOptions()).samples())


def changed(folder, **changes):
    """Write the manifest of a set with other values."""
    path = folder / manifest_name("p")
    value = json.loads(path.read_bytes())
    del value["digest"]
    path.write_bytes(seal((json.dumps(value | changes, indent=1) + "\n").encode()))


@pytest.mark.parametrize("read", [by_reader, by_tools])
def test_the_manifest_says_what_the_records_of_its_shards_are(folder, read):
    samples = [sample for i in range(2) for sample in read(folder / shard_name("p", i, 2))]
    assert sorted(int(sample["label"]) for sample in samples) == [0, 1, 2]


@pytest.mark.parametrize("read", [by_reader, by_tools])
def test_a_shard_that_its_manifest_does_not_name_is_bytes(folder, read):
    """A stale one of another conversion has the same prefix."""
    stale = folder / shard_name("p", 2, 3)
    stale.write_bytes((folder / shard_name("p", 0, 2)).read_bytes())
    assert all(isinstance(record, bytes) and len(record) == 8 for record in read(stale))


@pytest.mark.parametrize("read", [by_reader, by_tools])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "trainfeed-shards/2"}, "expected a manifest of format trainfeed-shards/1"),
        ({"prefix": "q"}, "expected the names of all shards in order"),
        ({"samples": 4}, "the numbers of samples or shards contradict the shards' accounts"),
        ({"schema": None}, "a set has a schema if it is typed, and only then"),
        ({"encoding": "pickle"}, "expected a manifest of shards"),
    ],
)
def test_a_manifest_that_is_none_is_refused_with_one_message(folder, read, changes, message):
    changed(folder, **changes)
    with pytest.raises(FormatError, match=message) as caught:
        read(folder / shard_name("p", 0, 2))
    assert caught.value.path == str(folder / manifest_name("p"))


@pytest.mark.parametrize("read", [by_reader, by_tools])
def test_a_set_that_was_renamed_is_refused_and_read_by_a_schema(folder, read):
    for path in list(folder.iterdir()):
        path.rename(path.with_name(path.name.replace("p", "q", 1)))
    with pytest.raises(FormatError, match="the manifest of 'q', got that of 'p': the set was re"):
        read(folder / shard_name("q", 0, 2))
    samples = recordio(str(folder / "q-*"), SCHEMA)()
    assert sorted(int(sample["label"]) for sample in samples) == [0, 1, 2]


def test_the_manifest_of_neighbouring_files_is_read_once(folder, monkeypatch):
    loaded = []
    load = ShardManifest.load
    monkeypatch.setattr(ShardManifest, "load", lambda *place: loaded.append(place) or load(*place))
    names = [shard_name("p", 0, 2), "other", shard_name("p", 1, 2), shard_name("r", 0, 1)]
    found = list(manifests_of(folder / name for name in names))
    assert [manifest is not None for manifest in found] == [True, False, True, False]
    assert found[0] is found[2]
    assert found[0].encoding is Encoding.TYPED
    # Beside the file of r is no manifest, so none is read.
    assert [prefix for _, prefix in loaded] == ["p"]


def test_the_sets_of_a_folder_are_those_that_have_a_manifest(folder):
    convert(folder, lambda: iter([b"a"]), 1, "a.b")
    (folder / shard_name("none", 0, 1)).write_bytes(b"")
    assert prefixes_in(folder) == ["a.b", "p"]
    assert prefixes_in(folder / "missing") == []


def test_looking_at_a_manifest_imports_neither_tfrecord_nor_what_converts():
    code = (
        "import sys; from trainfeed.readers import open_dataset, recordio\n"
        "assert 'trainfeed.versions.shards' in sys.modules\n"
        "wrong = ('trainfeed.tfrecord', 'trainfeed.conversion')\n"
        "print([name for name in sys.modules if name.startswith(wrong)])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
