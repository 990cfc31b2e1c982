"""Only plain files are opened; pipes, devices and links in their place are errors at once."""

import errno
import gc
import os
import socket
import tracemalloc
from pathlib import Path

import pytest

from trainfeed.errors import AccessDeniedError, FormatError, NotFoundError, StorageError
from trainfeed.files import open_plain, plain_fd, plain_size, read_plain
from trainfeed.files.stores import Location
from trainfeed.recordio import MappedFile, RecordAppender, RecordIndex

pytestmark = pytest.mark.timeout(30)
KINDS = ["folder", "pipe", "socket", "device"]


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """Something else than a plain file of each kind, called by it."""
    monkeypatch.chdir(tmp_path)  # the name of a socket has to be short
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    (tmp_path / "device").symlink_to("/dev/zero")
    return tmp_path


def num_fds_before():
    """How many descriptors are open when nothing is left of earlier tests."""
    gc.collect()
    return num_fds()


def num_fds():
    return len(list(Path("/proc/self/fd").iterdir()))


def opened(path, **how):
    with open_plain(path, **how) as file:
        return file.read()


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_named_at_once_and_nothing_stays_open(odd, kind, write):
    before = num_fds_before()
    with pytest.raises(FormatError, match=f"expected a plain file, got a {kind} in {odd / kind}"):
        plain_fd(odd / kind, follow=True, write=write)
    assert num_fds() == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("follow", [True, False])
def test_a_file_to_be_read_is_a_plain_one(odd, kind, follow):
    name = "symbolic link" if kind == "device" and not follow else kind
    for read in (opened, lambda path, **how: read_plain(path, max_bytes=9, **how)):
        with pytest.raises(FormatError, match=f"expected a plain file, got a {name}"):
            read(odd / kind, follow=follow)


def test_a_link_is_followed_only_when_asked_for(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("a")
    assert opened(tmp_path / "link", follow=True) == b"bytes"
    with pytest.raises(FormatError, match="got a symbolic link"):
        opened(tmp_path / "link", follow=False)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("gone")
    with pytest.raises(NotFoundError, match="link: no such file"):
        opened(tmp_path / "link", follow=True)
    with pytest.raises(FormatError, match="got a symbolic link"):
        opened(tmp_path / "link", follow=False)


def test_links_among_the_folders_above_are_always_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_bytes(b"bytes")
    (tmp_path / "folder").symlink_to("real")
    assert opened(tmp_path / "folder/a", follow=False) == b"bytes"


def test_links_in_a_circle_lead_to_no_file(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(AccessDeniedError, match="too many levels of symbolic links"):
        opened(tmp_path / "a", follow=True)


def test_a_file_that_is_gone_is_not_found_and_a_descriptor_says_so_as_the_system_does(tmp_path):
    with pytest.raises(NotFoundError, match="nothing: no such file"):
        opened(tmp_path / "nothing", follow=False)
    with pytest.raises(FileNotFoundError):
        plain_fd(tmp_path / "nothing", follow=False)


def test_a_file_that_is_removed_while_it_is_open_is_read_to_its_end(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    with open_plain(tmp_path / "a", follow=False) as file:
        (tmp_path / "a").unlink()
        assert file.read() == b"bytes"


def test_what_fails_while_a_file_is_open_says_in_which_and_closes_it(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    before = num_fds_before()
    with (
        pytest.raises(StorageError, match="/a: input/output error"),
        open_plain(tmp_path / "a", follow=False),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert num_fds() == before


def test_a_file_that_cannot_be_looked_at_is_closed(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    before = num_fds_before()

    def fails(_fd):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", fails)
        with pytest.raises(OSError, match="Stale"):
            plain_fd(tmp_path / "a", follow=False)
    assert num_fds() == before


def test_an_open_file_has_its_path_as_name(tmp_path):
    (tmp_path / "a").touch()
    with open_plain(tmp_path / "a", follow=True, buffering=0) as file:
        assert file.name == str(tmp_path / "a")


def test_a_file_for_writing_keeps_its_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    fd = plain_fd(tmp_path / "a", follow=True, write=True)
    os.pwrite(fd, b"B", 0)
    os.close(fd)
    assert (tmp_path / "a").read_bytes() == b"Bytes"


def test_the_size_of_an_open_file_is_that_of_a_plain_one(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    with (tmp_path / "a").open("rb") as file, Path("/dev/null").open("rb") as device:
        assert plain_size(file.fileno(), tmp_path / "a") == 5
        with pytest.raises(FormatError, match=r"expected a plain file, got a device$"):
            plain_size(device.fileno(), None)


def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(tmp_path):
    path = tmp_path / "some.json"
    path.write_bytes(b"x" * 100)
    assert read_plain(path, follow=False, max_bytes=100) == b"x" * 100
    tracemalloc.start()
    read_plain(path, follow=False, max_bytes=64 << 20)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 1 << 20
    with pytest.raises(FormatError, match="at most 99 bytes, got 100"):
        read_plain(path, follow=False, max_bytes=99)


def test_a_file_that_says_less_than_it_holds_is_bounded_too():
    # Files of the kernel say that they are empty, and are not.
    with pytest.raises(FormatError, match="at most 10 bytes"):
        read_plain("/proc/self/status", follow=False, max_bytes=10)
    whole = Path("/proc/self/cmdline").read_bytes()
    assert read_plain("/proc/self/cmdline", follow=False, max_bytes=1 << 20) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_another_try_is_not_asked_for_where_no_plain_file_is(odd, kind):
    path = odd / kind
    for open_it in (RecordIndex.load, MappedFile, RecordAppender):
        with pytest.raises(FormatError, match=f"expected a plain file, got a {kind}"):
            open_it(path)
    with pytest.raises(NotFoundError, match=f"{path}: expected a plain file, got a {kind}"):
        Location.parse(str(path)).open_read()
