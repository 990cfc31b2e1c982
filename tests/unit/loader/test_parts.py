"""Files, mounts, limits, figures: the parts that a loader stands on."""

import errno
import gc
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.loader.conftest import num_fds, num_fds_before, write_images
from tests.unit.loader.datasets import Squares
from tests.unit.refusals import refuse
from trainfeed.errors import AccessDeniedError, FormatError, StorageError
from trainfeed.files import SetWatch
from trainfeed.loader import DataLoader, LoaderReport
from trainfeed.loader import files as _files
from trainfeed.loader import mounts as _mounts
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.memory import LentMemory, LentPool, ThreadMemory


@pytest.fixture
def three(tmp_path):
    paths = []
    for i in range(3):
        (tmp_path / str(i)).write_bytes(bytes([i]) * 1000)
        paths.append(str(tmp_path / str(i)))
    return paths


def test_reads_fill_several_parts(three):
    files = ShardFiles(three)
    head, rest = bytearray(3), bytearray(7)
    files.read(1, 990, [memoryview(head), memoryview(b""), memoryview(rest)])
    assert head + rest == b"\1" * 10
    files.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_errors_that_pass_are_tried_again_with_a_new_descriptor(three, monkeypatch, number):
    """RD-12."""
    real, fds = os.preadv, []

    def flaky(fd, parts, offset):
        fds.append(fd)
        if len(fds) < 3:
            raise OSError(number, os.strerror(number))
        return real(fd, parts, offset)

    monkeypatch.setattr(_files, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(_files.os, "preadv", flaky)
    files, out = ShardFiles(three), bytearray(5)
    files.read(2, 0, [memoryview(out)])
    assert out == b"\2" * 5
    assert files.num_retries == 2
    files.close()


def test_short_reads_are_continued(three, monkeypatch):
    real = os.preadv
    monkeypatch.setattr(
        _files.os, "preadv", lambda fd, parts, offset: real(fd, [parts[0][:3]], offset)
    )
    files, out = ShardFiles(three), bytearray(10)
    files.read(2, 0, [memoryview(out)[:4], memoryview(out)[4:]])
    assert out == b"\2" * 10
    files.close()


def test_errors_that_last_say_where_and_how_often(three, monkeypatch):
    """RD-12: path and offset in the message, within the deadline."""

    now_s = 0.0

    def broken(fd, parts, offset):
        nonlocal now_s
        now_s += 3.0
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(_files, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(_files.os, "preadv", broken)
    monkeypatch.setattr(_files, "time", SimpleNamespace(monotonic=lambda: now_s))
    files = ShardFiles(three, deadline_s=10.0)
    with pytest.raises(StorageError, match=f"while reading {three[0]} at byte 7; tried 4 times"):
        files.read(0, 7, [memoryview(bytearray(5))])
    files.close()


def test_an_error_that_is_not_tried_again_speaks_of_no_tries(three, monkeypatch):
    def broken(fd, parts, offset):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(_files.os, "preadv", broken)
    files = ShardFiles(three)
    with pytest.raises(StorageError, match=r"at byte 7$"):
        files.read(0, 7, [memoryview(bytearray(5))])
    files.close()


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ETIMEDOUT])
def test_a_manifest_that_cannot_be_looked_at_for_a_moment_is_looked_at_again(
    tmp_path, monkeypatch, number
):
    """A set of several files is compared with its manifest whenever a file is opened."""
    paths = [str(tmp_path / f"p-0000{i}-of-00001") for i in range(2)]
    for path in paths:
        Path(path).write_bytes(b"abc")
    files, out = ShardFiles(paths, sets=SetWatch(paths)), bytearray(3)
    real, failed = Path.stat, []

    def stat(path, **how):
        if path.name == "p.shards.json" and not failed:
            failed.append(path)
            raise OSError(number, os.strerror(number), str(path))
        return real(path, **how)

    monkeypatch.setattr(_files, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(Path, "stat", stat)
    files.read(1, 0, [memoryview(out)])
    assert (bytes(out), files.num_retries, len(failed)) == (b"abc", 1, 1)
    files.close()


def test_a_kernel_that_takes_no_advice_is_read_from_all_the_same(three, monkeypatch):
    def refused(fd, start, length, advice):
        raise OSError(errno.ENOSYS, "Function not implemented")

    before = num_fds_before()
    monkeypatch.setattr(_files.os, "posix_fadvise", refused)
    files, out = ShardFiles(three, in_order=False), bytearray(5)
    files.read(2, 0, [memoryview(out)])
    files.expect(2, 0, 5)
    assert out == b"\2" * 5
    files.close()
    assert num_fds() == before


def test_few_files_are_open_however_many_there_are(tmp_path, monkeypatch):
    """RD-14."""
    monkeypatch.setattr(_files, "_MAX_OPEN", 4)
    images = write_images(tmp_path, [2] * 30)
    before = num_fds_before()
    with DataLoader(images, 4, shuffle=True) as loader:
        assert sum(batch.num_rows for batch in loader) == 60
        assert num_fds() <= before + 4
    assert num_fds() == before


def test_something_else_than_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    files = ShardFiles([str(tmp_path / name) for name in ("fifo", "link", "")])
    for shard in range(3):
        with pytest.raises(FormatError, match="expected a plain file"):
            files.read(shard, 0, [memoryview(bytearray(1))])
    files.close()


@pytest.mark.parametrize("mapped", [False, True])
def test_a_file_that_may_not_be_read_is_not_asked_for_again(tmp_path, monkeypatch, mapped):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a").write_bytes(b"bytes")
    refuse(monkeypatch, tmp_path / "folder")
    files = ShardFiles([str(tmp_path / "folder/a")])
    out = [memoryview(bytearray(1))]
    with pytest.raises(AccessDeniedError, match="folder/a"):
        files.view(0, 0, 1) if mapped else files.read(0, 0, out)
    assert files.num_retries == 0


def test_mapped_views_outlive_the_files(three):
    files = ShardFiles(three)
    view = files.view(1, 10, 5)
    files.close()
    assert view == b"\1" * 5
    with pytest.raises(FormatError, match="expected 20 bytes of a chunk, the file has 10 of them"):
        files.view(1, 990, 20)


def test_lent_memory_comes_back_with_the_last_view():
    pool = LentPool(max_free=2)
    memory = LentMemory(pool)
    memory.reserve(1000)
    first, second = memory.array((10, 3), np.int32), memory.array((5,), np.float64)
    assert first.__array_interface__["data"][0] % 64 == 0
    assert second.__array_interface__["data"][0] % 64 == 0
    place = first.__array_interface__["data"][0]
    view = second[1:3]
    del first, second, memory
    gc.collect()
    assert pool.lend(1000).__array_interface__["data"][0] != place
    del view
    gc.collect()
    assert {pool.lend(900).__array_interface__["data"][0] for _ in range(2)} >= {place}


def test_lent_memory_comes_back_from_a_cycle_of_references():
    pool = LentPool()
    ring = [pool.lend(1000)]
    ring.append(ring)
    place = ring[0].__array_interface__["data"][0]
    del ring
    gc.collect()
    assert pool.lend(1000).__array_interface__["data"][0] == place


def test_an_interrupt_is_not_lost_at_the_end_of_a_lend(monkeypatch):
    """Python ignores what is raised there: Ctrl-C would do nothing, and memory be lost."""
    lost, is_armed = [], False
    monkeypatch.setattr(sys, "unraisablehook", lambda args: lost.append(args.exc_type))

    def interrupt(*_):
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.001, 0.001)
    pool, interrupts = LentPool(), 0
    try:
        while interrupts < 50:
            try:
                is_armed = True
                while not lost:
                    pool.lend(1000)
                break
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert lost == []


def test_memory_of_a_thread_is_used_again_and_grows_and_no_other_thread_has_it():
    memory = ThreadMemory()

    def addresses():
        return {id(memory.of(size).obj) for size in (1000, 10, 1125)}

    mine = addresses()
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(addresses).result()
    assert len(mine) == len(theirs) == 1
    assert mine.isdisjoint(theirs)
    assert len(memory.of(2000)) == 2000


def test_figures_add_up(tmp_path):
    reports = []
    images = write_images(tmp_path, [40])
    with DataLoader(images, 8, num_threads=1, on_report=reports.append) as loader:
        assert loader.report() == LoaderReport()
        list(loader)
        list(loader)
        report = loader.report()
    assert [r.batches for r in reports] == [5, 10]
    assert (report.batches, report.samples, report.windows) == (10, 80, 2)
    assert report.bytes == 80 * 4208
    assert 0 <= report.stall_fraction <= 1
    assert report.elapsed_s >= report.wait_s > 0


def test_figures_can_be_scraped():
    text = LoaderReport(batches=3, wait_s=0.5).prometheus(job='a"b\\', rank="0")
    assert "# TYPE trainfeed_loader_batches_total counter\n" in text
    assert 'trainfeed_loader_batches_total{job="a\\"b\\\\",rank="0"} 3\n' in text
    assert "# TYPE trainfeed_loader_stall_fraction gauge\n" in text
    assert LoaderReport().prometheus().endswith("trainfeed_loader_stall_fraction 0.0\n")


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"num_workers": 1}])
def test_epochs_leave_nothing_open(options):
    """LD-18."""
    with DataLoader(Squares(40), 8, shuffle=True, **options) as loader:
        list(loader)
        before = num_fds_before()
        for _ in range(30):
            list(loader)
        assert num_fds() == before


@pytest.fixture
def ceph(tmp_path, monkeypatch):
    """Let the files be on CephFS; yields what a file says about its objects, by name."""
    (tmp_path / "mountinfo").write_text(f"22 1 0:9 / {tmp_path} rw - fuse.ceph-fuse ceph-fuse rw\n")
    monkeypatch.setattr(_mounts, "_MOUNTS", tmp_path / "mountinfo")
    said = {}

    def getxattr(fd, name):
        if name not in said:
            raise OSError(errno.ENODATA, "No data available")
        return said[name]

    monkeypatch.setattr(_files.os, "getxattr", getxattr)
    _mounts._type_at.cache_clear()
    yield said
    _mounts._type_at.cache_clear()


@pytest.mark.parametrize(
    ("said", "size"), [(b"256", 256), (b"", 4 << 20), (b"0", 4 << 20), (None, 4 << 20)]
)
def test_requests_stay_within_an_object_of_cephfs(tmp_path, ceph, monkeypatch, said, size):
    if said is not None:
        ceph["ceph.file.layout.object_size"] = said
    data = np.random.default_rng(0).bytes(1000)
    (tmp_path / "shard").write_bytes(data)
    real, asked = os.preadv, []

    def noted(fd, parts, offset):
        asked.append((offset, sum(map(len, parts))))
        return real(fd, parts, offset)

    monkeypatch.setattr(_files.os, "preadv", noted)
    files, out = ShardFiles([str(tmp_path / "shard")]), bytearray(900)
    files.read(0, 50, [memoryview(out)[:20], memoryview(out)[20:]])
    files.close()
    assert out == data[50:950]
    cuts = [*range(256, 950, 256)] if size == 256 else []
    assert asked == [
        (start, stop - start) for start, stop in zip([50, *cuts], [*cuts, 950], strict=True)
    ]


def test_other_file_systems_are_read_in_one_request(three, monkeypatch):
    real, asked = os.preadv, []
    monkeypatch.setattr(
        _files.os, "preadv", lambda fd, parts, at: asked.append(at) or real(fd, parts, at)
    )
    files, out = ShardFiles(three), bytearray(1000)
    files.read(1, 0, [memoryview(out)])
    files.close()
    assert (asked, out) == ([0], b"\1" * 1000)
