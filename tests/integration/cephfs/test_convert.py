"""Conversion onto a real CephFS: the bytes of a local one, whole or not at all.

Rows S12, S16 and S19 of the features.
"""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from trainfeed.conversion import (
    ConvertOptions,
    ShardManifest,
    convert,
    convert_files,
    finish_publication,
)
from trainfeed.core import faults
from trainfeed.errors import NotFoundError
from trainfeed.recordio import RecordScanner
from trainfeed.samples import Field, Schema

SCHEMA = Schema((Field("label", "int64"), Field("text", "str")))


def reader(count):
    return lambda: ({"label": n, "text": f"é{n}"} for n in range(count))


@pytest.fixture
def ceph():
    folder = Path(os.environ["TEST_CEPHFS_PATH"]) / f"convert-{uuid.uuid4()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


def test_shards_on_cephfs_are_those_on_a_local_disk(ceph, tmp_path):
    options = ConvertOptions(memory_bytes=1 << 18)
    for folder in (ceph, tmp_path):
        convert(folder / "set", reader(5000), 5, "p", schema=SCHEMA, options=options)
    assert files(ceph / "set") == files(tmp_path / "set")
    # Converted here and copied there is the same as converted there.
    shutil.copytree(tmp_path / "set", ceph / "copied")
    assert ShardManifest.load(ceph / "copied", "p").problems(ceph / "copied", deep=True) == []
    # The same reader code, only the prefix of the path differs.
    found = [list(RecordScanner(f"{folder}/set/p-*")) for folder in (ceph, tmp_path)]
    assert found[0] == found[1]
    convert_files(ceph / "set", ceph / "again", 2, "q")
    convert_files(tmp_path / "set", tmp_path / "again", 2, "q")
    assert files(ceph / "again") == files(tmp_path / "again")


@pytest.mark.parametrize(
    "point", ["convert.after_shard", "convert.before_commit", "convert.after_commit"]
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_kill_leaves_the_old_set_or_the_new_one(ceph, point, exists):
    out = ceph / "set"
    if exists:
        convert(out, reader(10), 9, "p", schema=SCHEMA)
    before = files(out) if exists else None
    process = os.fork()
    if process == 0:
        with suppress(BaseException):
            os.environ[faults.VARIABLE] = f"{point}:kill"
            faults._plan.cache_clear()
            convert(out, reader(50), 3, "p", schema=SCHEMA)
        os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert status == -signal.SIGKILL
    finish_publication(out, "p")
    if point == "convert.after_commit":
        manifest = ShardManifest.load(out, "p")
        assert (manifest.num_samples, manifest.problems(out, deep=True)) == (50, [])
    elif exists:
        assert files(out) == before
    else:
        with pytest.raises(NotFoundError):
            ShardManifest.load(out, "p")
    convert(out, reader(50), 3, "p", schema=SCHEMA)
    assert sorted(files(out)) == [*(f"p-{i:05d}-of-00002" for i in range(3)), "p.shards.json"]
    assert [p.name for p in ceph.iterdir()] == ["set"]
