"""Roots at a store: what readers find is what the root has, whole, with people's decisions."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.tls_files import tls_files
from tests.unit.pipeline.conftest import project
from trainfeed.core.accounts import Decision
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    RootError,
    WindowIncompleteError,
    WithdrawnError,
)
from trainfeed.files.stores import Location
from trainfeed.loader import DataLoader, open_intervals
from trainfeed.readers import open_dataset
from trainfeed.remote import INDEX, roots, write_index
from trainfeed.versions import Skip, write_skip
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.tag import apply_change, propose_tag
from trainfeed.versions.withdraw import (
    Withdrawal,
    lift_withdrawal,
    withdrawal_of,
    write_withdrawal,
)

__all__ = ["project"]

DAYS = ("2024-03-01", "2024-03-02", "2024-03-03")


@pytest.fixture
def built(project, monkeypatch):
    """Three days, in a root that is reached as if it were at a store that lists."""
    for name in DAYS:
        project.prebuilt(name)
    parse = Location.parse
    monkeypatch.setattr(
        roots,
        "_location",
        lambda uri: parse(uri.removeprefix("hdfs://local")) if "local" in uri else real(uri),
    )
    monkeypatch.setenv("TRAINFEED_CACHE", str(project.path / "cache"))
    monkeypatch.setenv("TRAINFEED_CACHE_BYTES", "64MiB")
    return project


real = roots._location


@pytest.fixture
def served(built, socket_enabled, monkeypatch):
    """The same root behind a small TLS server of the tests, with an index."""
    write_index(built.env.root)
    with tls_files(Path(built.env.root), built.path / "tls") as server:
        monkeypatch.setenv("TRAINFEED_CA_FILE", str(server.certificate))
        yield server


@pytest.fixture(params=["listed", "indexed"])
def root(request, built):
    """The address of the root: at a store that lists, and at one with an index."""
    if request.param == "listed":
        return f"hdfs://local{built.env.root}"
    return request.getfixturevalue("served").uri


def refresh(built, root):
    """Write the index again, where there is one, after a change of the root."""
    if root.startswith("https"):
        write_index(built.env.root)


def samples(dataset, **options):
    return [(float(s["value"]), int(s["label"])) for s in dataset.reader(**options)()]


def batches(dataset, **options):
    with DataLoader(dataset, 7, **options) as loader:
        return [{k: np.array(v) for k, v in batch.items()} for batch in loader], loader.state_dict()


def opened(place, **options):
    options = {"interval": "2024-03-01/2024-03-03", "split": "train"} | options
    return open_dataset("clicks", root=place, **options)


@pytest.mark.parametrize("split", ["train", "eval"])
def test_samples_are_those_of_the_root_itself(built, root, split):
    here, afar = opened(built.env.root, split=split), opened(root, split=split)
    assert samples(afar) == samples(here)
    assert samples(afar, rank=1, world_size=3) == samples(here, rank=1, world_size=3)
    assert afar.version == here.version
    assert afar.content_digest == here.content_digest


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"num_workers": 1}])
def test_batches_and_states_are_those_of_the_root_itself(built, root, options):
    here, state = batches(opened(built.env.root), **options)
    afar, other = batches(opened(root), **options)
    assert state == other
    assert len(here) == len(afar)
    assert all(np.array_equal(a[k], b[k]) for a, b in zip(here, afar, strict=True) for k in a)


def test_a_reader_goes_on_from_a_position(built, root):
    here, afar = (opened(place).reader() for place in (built.env.root, root))
    expected = [block["label"].tolist() for block in here.blocks_from(40)]
    assert [block["label"].tolist() for block in afar.blocks_from(40)] == expected


def test_intervals_are_listed_from_afar(built, root):
    window = open_intervals("clicks", [DAYS[0], DAYS[2]], split="train", root=root)
    assert window.dataset.version == "2024-03-01/g0001,2024-03-03/g0001"


def test_a_withdrawal_counts_at_the_next_opening_and_so_does_its_end(built, root):
    folder = DatasetFolder(Path(built.env.root), "clicks")
    assert opened(root, interval=DAYS[0]).version == f"{DAYS[0]}/g0001"
    at = "2024-04-01T00:00:00Z"
    mark = Withdrawal("clicks", DAYS[0], 1, who="ada", account="ada", why="wrong", at=at)
    write_withdrawal(folder, mark)
    refresh(built, root)
    with pytest.raises(NotFoundError):
        opened(root, interval=DAYS[0])
    with pytest.raises(WithdrawnError, match="wrong"):
        opened(root, interval=DAYS[0], generation="g0001")
    pinned = opened(root, interval=DAYS[0], generation="g0001", withdrawn="warn")
    assert samples(pinned)
    lift_withdrawal(folder, withdrawal_of(folder, DAYS[0], 1), "0123456789abcdef")
    refresh(built, root)
    assert opened(root, interval=DAYS[0]).version == f"{DAYS[0]}/g0001"


def test_a_version_whose_manifest_has_not_come_yet_is_absent(built, root):
    source = Path(built.env.root) / "clicks/versions" / DAYS[0]
    shutil.copytree(source / "g0001", source / "g0002")
    (source / "g0002/MANIFEST.json").unlink()
    refresh(built, root)
    assert opened(root, interval=DAYS[0]).version == f"{DAYS[0]}/g0001"


def test_a_missing_day_is_named_and_a_skipped_one_is_not_missing(built, root):
    shutil.rmtree(Path(built.env.root) / "clicks/versions" / DAYS[1])
    refresh(built, root)
    with pytest.raises(WindowIncompleteError, match=DAYS[1]):
        opened(root)
    folder = DatasetFolder(Path(built.env.root), "clicks")
    write_skip(folder, Skip(DAYS[1], "no clicks", "2024-04-01T00:00:00Z", None))
    refresh(built, root)
    assert [skip.interval for skip in opened(root).skipped] == [DAYS[1]]


def test_a_tag_is_resolved_from_afar(built, root):
    folder = DatasetFolder(Path(built.env.root), "clicks")
    decision = Decision.now("a good week", who="ada")
    apply_change(folder, propose_tag(folder, f"{DAYS[0]}/{DAYS[1]}", "prod", decision))
    refresh(built, root)
    found = open_dataset("clicks@prod", split="train", root=root)
    assert found.version == f"{DAYS[0]}/g0001,{DAYS[1]}/g0001"
    again = open_dataset("clicks@prod#1", interval=DAYS[1], split="train", root=root)
    assert again.version == f"{DAYS[1]}/g0001"
    with pytest.raises(NotFoundError, match="prod"):
        open_dataset("clicks@prot", split="train", root=root)


def test_a_damaged_manifest_or_index_is_named(built, root):
    home = Path(built.env.root) / "clicks/versions" / DAYS[0] / "g0001"
    data = bytearray((home / "CHUNKS.arrow").read_bytes())
    data[100] ^= 1
    (home / "CHUNKS.arrow").write_bytes(data)
    with pytest.raises((ChecksumError, FormatError), match=r"CHUNKS\.arrow"):
        opened(root, interval=DAYS[0])


def test_a_damaged_copy_is_fetched_again(built, root):
    opened(root, interval=DAYS[0])
    copies = list((built.path / "cache/roots").rglob("*.arrow"))
    copies += (built.path / "cache/roots").rglob("MANIFEST.json")
    assert len(copies) == 2
    for path in copies:
        path.write_bytes(b"torn")
    assert samples(opened(root, interval=DAYS[0])) == samples(
        opened(built.env.root, interval=DAYS[0])
    )


def test_a_second_opening_copies_no_manifest_again(built, served):
    opened(served.uri)
    served.asked.clear()
    opened(served.uri)
    assert [path for _, path, _ in served.asked if "MANIFEST" in path or "CHUNKS" in path] == []


@pytest.mark.parametrize(
    "options",
    [{"lease": True}, {"job": "clicks-1"}, {"name": "a/b"}, {"interval": None}],
)
def test_what_a_store_cannot_give_is_refused(built, options):
    name = options.pop("name", "clicks")
    options = {"interval": DAYS[0], "split": "train"} | options
    with pytest.raises(ConfigError):
        open_dataset(name, root=f"hdfs://local{built.env.root}", **options)


def test_a_cache_beside_a_mounted_root_is_refused(built):
    with pytest.raises(ConfigError, match="leave cache and cache_bytes out"):
        opened(built.env.root, cache=built.path / "c")


@pytest.mark.parametrize("text", ["", "0", "many", "12 parsecs", "-1"])
def test_a_bound_that_is_no_size_is_refused(built, monkeypatch, text):
    monkeypatch.setenv("TRAINFEED_CACHE_BYTES", text)
    with pytest.raises(ConfigError, match="TRAINFEED_CACHE_BYTES"):
        opened(f"hdfs://local{built.env.root}")


@pytest.mark.parametrize(
    "uri",
    ["https://ada:secret@host/x", "https://host/x?y", "https:///x", "https://host/a/../b"],
)
def test_an_address_that_is_no_root_is_refused_without_its_secrets(built, uri):
    with pytest.raises(ConfigError) as caught:
        opened(uri)
    assert "secret" not in str(caught.value)


def test_a_root_without_an_index_says_what_writes_it(built, served):
    (Path(built.env.root) / INDEX).unlink()
    with pytest.raises(RootError, match="trainfeed index"):
        opened(served.uri)


def test_an_index_that_was_changed_is_refused(built, served):
    path = Path(built.env.root) / INDEX
    path.write_bytes(path.read_bytes().replace(b"2024-03-01", b"2024-03-11"))
    with pytest.raises(FormatError, match="trainfeed index"):
        opened(served.uri)


def test_an_index_names_the_small_files_of_readers_only(built):
    index = write_index(built.env.root)
    assert index.num_versions == 3
    root = Path(built.env.root)
    for path, (size, digest) in index.files.items():
        data = (root / path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)
    names = {Path(path).name for path in index.files}
    assert names == {
        "MANIFEST.json",
        "MANIFEST.sha256",
        "CHUNKS.arrow",
        "statistics.json",
        "SCHEDULE.json",
    }
    assert json.loads((root / INDEX).read_bytes())["format"] == 1


def test_a_damaged_manifest_leaves_the_old_index(built):
    write_index(built.env.root)
    before = (Path(built.env.root) / INDEX).read_bytes()
    manifest = Path(built.env.root) / "clicks/versions" / DAYS[0] / "g0001/MANIFEST.json"
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(ChecksumError):
        write_index(built.env.root)
    assert (Path(built.env.root) / INDEX).read_bytes() == before
