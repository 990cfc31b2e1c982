"""A disk that is full, over quota, read-only or broken, at the calls of a build on files.

For every call the build ends with an error of trainfeed that says where, what is kept and what to
do, or continues if it does not need the file; and the next build makes the same content.
"""

import errno
import io
import os
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    Outcome,
    QuotaExceededError,
    StorageError,
    TrainFeedError,
    UnsuitableStoreError,
)
from trainfeed.pipeline import local as pipeline
from trainfeed.pipeline import preprocess as _function_run
from trainfeed.pipeline.workers.protocol import PROGRESS_BYTES, Desk, WorkerPlace

CALLS = (
    "open", "mkdir", "rename", "replace", "link", "unlink", "rmdir",
    "write", "fsync", "chmod", "fchmod", "scandir", "listdir",
)  # fmt: skip
# The error, what it becomes, and of the calls that are tried the part that meets it.
KINDS = [
    (errno.ENOSPC, QuotaExceededError, slice(0, None, 4)),
    (errno.EROFS, AccessDeniedError, slice(0, None, 10)),
    (errno.EDQUOT, QuotaExceededError, slice(3, None, 9)),
    (errno.EIO, StorageError, slice(6, None, 8)),
]
FULL = "/dev/full"
OS_OPEN = os.open


class Disk:
    """Counts calls of ``os`` on paths below a folder, and lets one of them fail.

    Attributes:
        calls: Of every call so far its name and the path, from the first on.
    """

    def __init__(self, monkeypatch):
        self.calls = []
        self._folder, self._fails_at, self._errno = "", None, 0
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))
        monkeypatch.setattr(io, "open", self._wrapped("open", io.open))
        monkeypatch.setattr("builtins.open", self._wrapped("open", open))

    def watch(self, folder, fails_at=None, code=0):
        """Forget the calls so far; the one of number ``fails_at`` below the folder fails."""
        self.calls = []
        self._folder, self._fails_at, self._errno = f"{folder}/", fails_at, code

    def _wrapped(self, name, call):
        def wrapped(*args, **kwargs):
            # What is opened with an opener is counted there; a descriptor was opened before.
            is_again = name == "open" and (kwargs.get("opener") or isinstance(args[0], int))
            if not is_again and self._fails(name, args[0]):
                raise OSError(self._errno, os.strerror(self._errno), args[0])
            result = call(*args, **kwargs)
            if call is OS_OPEN and args[1] & os.O_CREAT and self._fails("write to", args[0]):
                # The kernel refuses what is written there, whatever calls write.
                full = OS_OPEN(FULL, os.O_RDWR)
                os.dup2(full, result, inheritable=False)
                os.close(full)
            return result

        return wrapped

    def _fails(self, name, what):
        path = (
            str(Path(f"/proc/self/fd/{what}").readlink())
            if isinstance(what, int)
            else os.fspath(what)
        )
        if name == "fsync" and path == FULL:
            return True
        if not f"{path}/".startswith(self._folder):
            return False
        self.calls.append((name, path.removeprefix(self._folder)))
        return len(self.calls) - 1 == self._fails_at


def run_here(jobs, limits, on_piece, **_):
    """Run the jobs of workers in this process."""
    with os.fdopen(os.memfd_create("progress"), "r+b") as memory:
        memory.truncate(PROGRESS_BYTES)
        place = WorkerPlace(memory.fileno())
        try:
            return [job.run(Desk(place, on_piece)) for job in jobs]
        finally:
            place.close()


@pytest.fixture
def disk(project, monkeypatch):
    project.record({0: [batch([event(i, START_MS + i) for i in range(20)])]})
    monkeypatch.setattr(_function_run, "run_jobs", run_here)
    monkeypatch.setattr(pipeline, "start_workers", lambda *_, **__: None)
    return Disk(monkeypatch)


def samples(calls, code):
    """Return the number of the first call of every kind in every part of the places."""
    first = {}
    for number, (name, path) in enumerate(calls):
        if name == "write to" and code != errno.ENOSPC:
            continue  # the kernel's own device refuses writes with that error only
        first.setdefault((name, "/".join(path.split("/")[:3])), number)
    return sorted(first.values())


def outcome(project):
    """Return the error of ours that a build has ended with, if any."""
    try:
        project.build()
    except TrainFeedError as error:
        return error
    return None


def is_told(error, project, code, kind):
    """Whether an error says what the disk refused, where, and of which kind that is."""
    text = str(error)
    # After the rename nobody knows whether it lasts; before a plan the file system is looked at.
    is_kind = (
        isinstance(error, kind)
        or (isinstance(error, CommitUnknownError) and "was renamed into place" in text)
        or (isinstance(error, UnsuitableStoreError) and "mounted for writing" in text)
    )
    is_ours = os.strerror(code).lower() in text and project.env.root[:-5] in text
    return (
        is_kind
        and is_ours
        and error.outcome
        is (
            Outcome.RETRY
            if code == errno.EIO or isinstance(error, CommitUnknownError)
            else Outcome.FAIL
        )
    )


@pytest.fixture
def plain(project, disk):
    """A build that met no error; the calls that it made are those of ``disk``."""
    plain = project.elsewhere("plain")
    disk.watch(plain.env.root.removesuffix("/root"))
    plain.build()
    return plain


@pytest.mark.parametrize(
    ("code", "kind", "part"), KINDS, ids=[errno.errorcode[code] for code, *_ in KINDS]
)
def test_a_disk_that_refuses_any_call_is_one_error_of_ours_and_the_next_build_is_equal(
    project, disk, plain, code, kind, part
):
    digest = plain.version().manifest.content_digest
    calls, outcomes = disk.calls, []
    for number in samples(calls, code)[part]:
        there = project.elsewhere(f"{number}")
        disk.watch(project.path / f"{number}", number, code)
        outcomes.append(outcome(there))
        assert outcomes[-1] is None or is_told(outcomes[-1], there, code, kind), calls[number]
        disk.watch("/nowhere")
        there.build()
        assert there.version().manifest.content_digest == digest, calls[number]
    assert sum(error is not None for error in outcomes) >= 4


def test_a_disk_that_is_full_when_boundaries_are_listed_is_told_with_the_folder(
    project, disk, plain
):
    numbers = [
        number
        for number, (name, path) in enumerate(disk.calls)
        if name in ("scandir", "listdir") and "/boundaries/" in path
    ]
    assert len(numbers) >= 6
    for number in numbers:
        there = project.elsewhere(f"{number}")
        disk.watch(project.path / f"{number}", number, errno.ENOSPC)
        with pytest.raises(QuotaExceededError, match=r"boundaries/clicks.*no space left"):
            there.build()
