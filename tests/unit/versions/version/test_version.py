"""A damaged version: every error is one of trainfeed's and names the file and its fault."""

import errno
import hashlib
import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.errors import (
    ChecksumError,
    FormatError,
    NotFoundError,
    StorageError,
    UnsupportedCodecError,
)
from trainfeed.files import open_plain
from trainfeed.versions import Version
from trainfeed.versions import publication as _intact
from trainfeed.versions.version import CHUNKS, CHUNKS_SCHEMA

__all__ = ["project"]


@pytest.fixture
def version(project):
    project.prebuilt()
    return project.version()


def link(path):
    target = path.rename(path.with_name("elsewhere"))
    path.symlink_to(target)


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def folder(path):
    path.unlink()
    path.mkdir()


def replace(path, data):
    path.unlink()
    path.write_bytes(data)


def publish_index(version, table):
    """Give the version another index, and a manifest that vouches for it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return publish(version, sink.getvalue().to_pybytes())


def publish(version, data):
    replace(version.path / CHUNKS, data)
    manifest = json.loads((version.path / "MANIFEST.json").read_bytes())
    for entry in manifest["files"]:
        if entry["name"] == CHUNKS:
            entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    publish_manifest(version, manifest)
    return Version.open(version.path)


def publish_manifest(version, manifest):
    text = json.dumps(manifest).encode()
    replace(version.path / "MANIFEST.json", text)
    replace(version.path / "MANIFEST.sha256", hashlib.sha256(text).hexdigest().encode())


def index(version, **changes):
    rows = pa.ipc.open_file(version.path / CHUNKS).read_all().to_pylist()
    return [row | changes for row in rows]


@pytest.mark.parametrize("damage", [link, fifo])
def test_something_else_in_place_of_a_shard_is_a_problem_and_all_others_are_found_too(
    version, damage
):
    shard, *_, last = version.shard_paths("train")
    damage(shard)
    last.unlink()
    said = [str(problem) for problem in version.problems()]
    assert any("expected a plain file" in line and shard.name in line for line in said)
    assert any("is missing" in line and last.name in line for line in said)


def test_a_file_that_cannot_be_read_is_a_problem(version, monkeypatch):
    monkeypatch.setattr(os, "open", refuse)
    problems = list(version.problems())
    assert len(problems) == len(version.manifest.file_digests())
    assert all(type(problem) is StorageError for problem in problems)
    with pytest.raises(StorageError, match="input/output error"):
        version.verify()


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_threads_find_the_problems_that_one_finds_in_the_same_order(version, monkeypatch, cores):
    damaged = sorted(path.name for path in version.shard_paths("train"))[1:]
    for name in damaged:
        path = version.path / name
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    monkeypatch.setattr(_intact, "_LEAST_BYTES", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    threads = set()
    compare = _intact._verify_file

    def noting(*file):
        threads.add(threading.current_thread().name)
        compare(*file)

    monkeypatch.setattr(_intact, "_verify_file", noting)
    problems = list(version.problems())
    assert [Path(problem.path).name for problem in problems] == damaged
    assert all(type(problem) is ChecksumError for problem in problems)
    assert any("digest" in name for name in threads) is (cores > 1)
    with pytest.raises(ChecksumError, match=damaged[0]):
        version.verify()


def replace_when_opened(monkeypatch, times):
    """Have another publisher replace a file by an equal one, each time after it was opened."""
    replaced = []

    @contextmanager
    def opened(path, **options):
        with open_plain(path, **options) as file:
            if len(replaced) < times:
                replaced.append(path)
                path.with_name("other").write_bytes(path.read_bytes())
                path.with_name("other").replace(path)
            yield file

    monkeypatch.setattr(_intact, "open_plain", opened)
    return replaced


def test_a_file_that_another_publisher_replaces_meanwhile_is_opened_again(version, monkeypatch):
    replaced = replace_when_opened(monkeypatch, 3)
    version.verify()
    assert len(set(replaced)) == 1
    assert len(replaced) == 3


def test_a_file_that_is_replaced_without_end_is_a_problem(version, monkeypatch):
    replace_when_opened(monkeypatch, 1000)
    problems = list(version.problems())
    assert len(problems) == len(version.manifest.file_digests())
    assert all("got one replaced again and again" in str(each) for each in problems)


def test_a_file_with_a_second_name_is_a_problem(version):
    path = version.shard_paths("train")[0]
    (version.path.parent / "other").hardlink_to(path)
    (problem,) = version.problems()
    assert "expected a plain file with one name, got one with 2" in str(problem)
    assert Path(problem.path) == path


def test_a_version_that_is_gone_is_a_problem(version):
    version.path.rename(version.path.with_name("elsewhere"))
    (problem,) = version.problems()
    assert isinstance(problem, NotFoundError)


@pytest.mark.parametrize("damage", [link, fifo, folder])
@pytest.mark.parametrize("name", ["MANIFEST.json", "MANIFEST.sha256", CHUNKS])
def test_something_else_in_place_of_a_file_is_no_version(version, damage, name):
    damage(version.path / name)
    with pytest.raises(FormatError, match="expected a plain file"):
        Version.open(version.path).chunks("train")


@pytest.mark.parametrize("name", ["MANIFEST.json", "MANIFEST.sha256", CHUNKS])
def test_a_missing_file_is_named(version, name):
    (version.path / name).unlink()
    with pytest.raises(NotFoundError, match=name):
        Version.open(version.path).chunks("train")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"", b"no digest", b"0" * 65])
def test_a_damaged_digest_of_the_manifest_is_no_digest(version, data):
    replace(version.path / "MANIFEST.sha256", data)
    with pytest.raises(FormatError, match=r"expected 64 hex digits, got .* in .*MANIFEST\.sha256"):
        Version.open(version.path)


def test_another_digest_of_the_manifest_is_a_difference(version):
    replace(version.path / "MANIFEST.sha256", b"0" * 64 + b"\n")
    with pytest.raises(ChecksumError, match="expected a manifest with SHA-256 000"):
        Version.open(version.path)


def test_a_manifest_that_cannot_be_read_is_an_error_of_ours(version, monkeypatch):
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match="input/output error"):
        Version.open(version.path)


@pytest.mark.parametrize("data", [b"", b"no arrow", b"ARROW1\0\0" + bytes(64)])
def test_an_index_that_is_no_arrow_file_is_named(version, data):
    with pytest.raises(FormatError, match=r"expected an Arrow file: .*CHUNKS\.arrow"):
        publish(version, data).chunks("train")


def test_an_index_of_other_columns_or_with_nulls_is_refused(version):
    for table in (
        pa.table({"split": ["train"]}),
        pa.Table.from_pylist(index(version, crc32=None), schema=CHUNKS_SCHEMA),
    ):
        with pytest.raises(FormatError, match="expected the columns"):
            publish_index(version, table).chunks("train")


def test_an_index_with_an_unknown_codec_is_refused(version):
    table = pa.Table.from_pylist(index(version, codec=99), schema=CHUNKS_SCHEMA)
    with pytest.raises(UnsupportedCodecError, match="got 99"):
        publish_index(version, table).chunks("train")


@pytest.mark.parametrize("shard", [-1, 1000])
def test_an_index_of_a_shard_that_is_not_there_is_refused(version, shard):
    table = pa.Table.from_pylist(index(version, shard=shard), schema=CHUNKS_SCHEMA)
    with pytest.raises(FormatError, match=f"in shard {shard}"):
        publish_index(version, table).chunks("train")


def test_a_chunk_behind_the_last_sample_is_refused(version):
    entries = index(version)
    of_train = [entry for entry in entries if entry["split"] == "train"]
    table = pa.Table.from_pylist([*entries, of_train[0]], schema=CHUNKS_SCHEMA)
    with pytest.raises(FormatError, match="the index has one with sample 0"):
        publish_index(version, table).chunks("train")


def refuse(*_, **__):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


SOURCE = "kafka:clicks/0"


def more_read(manifest):
    manifest["ledger"][SOURCE]["read"]["records"] += 1


def more_quarantined(manifest):
    account = manifest["ledger"][SOURCE]
    account["quarantined"]["records"] += 1
    account["valid"]["records"] -= 1


def more_filtered(manifest):
    account = manifest["ledger"][SOURCE]
    account["filtered"]["negative"]["records"] += 1
    account["valid"]["records"] -= 1


def more_read_than_planned(manifest):
    manifest["inputs"][SOURCE]["end"] -= 1


def more_samples(manifest):
    manifest["splits"]["train"]["samples"] += 1


def another_source(manifest):
    manifest["sources"][0] = "kafka:other/0"


def one_source_less(manifest):
    manifest["sources"].pop()


def no_account(manifest):
    del manifest["ledger"][SOURCE]


def no_input(manifest):
    del manifest["inputs"][SOURCE]


def no_count(manifest):
    del manifest["ledger"][SOURCE]["valid"]["samples"]


@pytest.mark.parametrize(
    "change",
    [
        more_read,
        more_quarantined,
        more_filtered,
        more_read_than_planned,
        more_samples,
        another_source,
        one_source_less,
        no_account,
        no_input,
        no_count,
    ],
)
def test_a_manifest_whose_counts_contradict_each_other_is_refused_by_every_reader(version, change):
    manifest = json.loads((version.path / "MANIFEST.json").read_bytes())
    change(manifest)
    publish_manifest(version, manifest)
    with pytest.raises(FormatError, match=r"counts agree.*MANIFEST\.json"):
        Version.open(version.path)


@pytest.mark.parametrize("name", ["bytes", "l1", "l2"])
def test_a_ledger_whose_sums_do_not_balance_is_found_by_verify(version, name):
    manifest = json.loads((version.path / "MANIFEST.json").read_bytes())
    leaf = manifest["ledger"][SOURCE]["read"]
    leaf[name] = leaf[name] + 1 if name == "bytes" else "0" * 16
    publish_manifest(version, manifest)
    with pytest.raises(FormatError, match=SOURCE):
        Version.open(version.path).verify()
