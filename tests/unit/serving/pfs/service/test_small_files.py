"""Small files behind the file server: steps of a bundle, and what one request can take."""

import json
import multiprocessing
import os
import resource
import stat
import threading
from hashlib import sha256

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, running
from trainfeed.errors import FormatError, ServiceError, TrainFeedError
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place
from trainfeed.serving.pfs.limits import FileLimits
from trainfeed.serving.pfs.posix import LocalTree, MountedTree
from trainfeed.serving.pfs.tree import SMALL_BYTES, Entry, Kind, SmallFile
from trainfeed.serving.pfs.wire import (
    BUNDLE_BYTES,
    BUNDLE_FILES,
    SMALL_DIGESTS,
    SMALL_READ,
    UPLOADS,
    Bundle,
)
from trainfeed.serving.server import Limits

pytestmark = pytest.mark.usefixtures("socket_enabled")


@pytest.fixture
def storage(tmp_path):
    (tmp_path / "storage").mkdir()
    return Storage(tmp_path / "storage")


def counted_folder_syncs(monkeypatch):
    """Count syncs of folders in this process and in those that it forks."""
    count, real = multiprocessing.Value("i", 0), os.fsync

    def fsync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            with count.get_lock():
                count.value += 1
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return count


def test_a_new_folder_of_small_files_is_synced_by_folders_and_not_by_files(
    storage, tmp_path, monkeypatch
):
    (tmp_path / "source" / "below").mkdir(parents=True)
    for number in range(40):
        (tmp_path / "source" / "below" / f"{number}").write_bytes(b"x" * number)
    count = counted_folder_syncs(monkeypatch)
    with running(storage) as server:
        tree, before = server.tree(), count.value
        place = Place(LocalTree(), (tmp_path / "source").parts)
        outcomes = list(
            copy_places([place], Place(tree, ("copy",)), CopyOptions(is_recursive=True))
        )
        tree.close()
    assert {outcome.verdict for outcome in outcomes} == {"copied"}
    assert len(list((storage.home() / "copy" / "below").iterdir())) == 40
    # Both folders before the rename, and twice the folder above after it.
    assert count.value - before == 4


def test_a_path_that_comes_twice_in_a_bundle_is_refused_and_nothing_is_written(storage):
    with running(storage) as server:
        tree = server.tree()
        hidden = f".pfs.{'0' * 32}.tmp"
        tree.make_folder((hidden,))
        twice = [SmallFile((hidden, "a"), data) for data in (b"one", b"other")]
        with pytest.raises(FormatError, match="each path once"):
            tree.put_small(twice, replace=True, is_hidden=True)
        tree.close()
    assert list((storage.home() / hidden).iterdir()) == []


def test_digests_of_small_files_count_for_the_rate_of_the_user(storage):
    (storage.home() / "file").write_bytes(bytes(1000))
    limits = FileLimits(bytes_per_second=1.0, burst_bytes=1000)
    with running(storage, limits=limits) as server:
        tree = server.tree(patience_seconds=5.0)
        assert len(tree.small_digests([("file",)] * 2)) == 2
        with pytest.raises(ServiceError, match="429"):
            tree.small_digests([("file",)])
        tree.close()


def test_bundles_of_many_folders_at_once_leave_descriptors_for_other_users(storage):
    """Each of 16 requests holds 64 files in 64 folders; the process has 1,024 descriptors."""
    for number in range(64):
        (storage.home() / f"folder-{number}").mkdir()
    failed = []

    def send(tree, files):
        try:
            failed.extend(filter(None, tree.put_small(files, replace=False, is_hidden=False)))
        except TrainFeedError as error:
            failed.append(error)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    with running(storage, server_limits=Limits(request_seconds=120)) as server:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        tree = server.tree(patience_seconds=100.0, answer_seconds=100.0)
        bobs = server.tree("bob", patience_seconds=100.0, answer_seconds=100.0)
        bundles = [
            [SmallFile((f"folder-{number}", f"file-{each}"), b"x") for number in range(64)]
            for each in range(16)
        ]
        calls = [*((tree, files) for files in bundles), (bobs, [SmallFile(("own",), b"x")])]
        threads = [threading.Thread(target=send, args=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tree.close()
        bobs.close()
    assert failed == []
    assert len(list(storage.home().glob("*/file-*"))) == 16 * 64
    assert (storage.home("bob") / "own").read_bytes() == b"x"


@pytest.mark.parametrize("route", [SMALL_READ, SMALL_DIGESTS])
def test_a_request_for_more_files_than_a_bundle_has_is_refused(storage, route):
    with running(storage) as server:
        client = server.client()
        body = json.dumps({"paths": ["/pfs/dc/home/alice/x"] * 65}).encode()
        reply = client.ask("POST", route, body=body, headers={"content-type": "application/json"})
        client.close()
    assert reply.status == 422


def test_a_bundle_with_a_large_head_or_many_files_is_refused():
    with pytest.raises(FormatError, match="head of at most"):
        Bundle.unpack(Bundle([{"path": "x" * (3 << 20)}], [b""]).pack())
    with pytest.raises(FormatError, match=f"at most {BUNDLE_FILES} files"):
        Bundle.unpack(Bundle([{}] * (BUNDLE_FILES + 1), [b""] * (BUNDLE_FILES + 1)).pack())


def audited(storage, server, paths):
    """Return what the audit says about a request for digests of files."""
    client = server.client()
    body = json.dumps({"paths": paths}).encode()
    client.ask("POST", SMALL_DIGESTS, body=body, headers={"content-type": "application/json"})
    # A line is written after the answer, and before the answer to the next request.
    client.ask("GET", UPLOADS)
    client.close()
    return next(line for line in storage.audit() if line["what"] == f"POST {SMALL_DIGESTS}")[
        "about"
    ]


def test_the_audit_names_all_files_of_a_bundle_that_have_room(storage):
    paths = [f"/pfs/dc/home/alice/folder/{number}" for number in range(64)]
    with running(storage) as server:
        assert audited(storage, server, paths) == f"64 files: {' '.join(paths)}"


def test_the_audit_counts_files_that_have_no_room_and_has_a_digest_of_all(storage):
    paths = [f"/pfs/dc/home/alice/{'x' * 100}-{number}" for number in range(64)]
    with running(storage) as server:
        about = audited(storage, server, paths)
    named, _, rest = about.removeprefix("64 files: ").partition(" … and ")
    named = named.split(" ")
    assert named == paths[: len(named)]
    digest = sha256("".join(f"{path}\n" for path in paths).encode()).hexdigest()
    assert rest == f"{64 - len(named)} more; SHA-256 of all paths as lines: {digest}"


def test_files_that_grow_after_a_look_at_them_come_in_bundles_of_bounded_size(storage, monkeypatch):
    for number in range(20):
        (storage.home() / f"{number}").write_bytes(bytes(SMALL_BYTES))
    grown = Entry("", Kind.FILE, 0, 0)
    monkeypatch.setattr(MountedTree, "stat", lambda *_: grown)
    paths = [f"/pfs/dc/home/alice/{number}" for number in range(20)]
    with running(storage) as server:
        client = server.client()
        body = json.dumps({"paths": paths}).encode()
        headers = {"content-type": "application/json"}
        reply = client.ask("POST", SMALL_READ, body=body, headers=headers)
        client.close()
    assert reply.status == 200
    assert SMALL_BYTES < len(reply.body) <= BUNDLE_BYTES
    bundle = Bundle.unpack(reply.body)
    assert [len(data) for data in bundle.data] == [SMALL_BYTES] * len(bundle.about)
