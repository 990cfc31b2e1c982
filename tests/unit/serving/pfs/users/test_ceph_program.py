"""The program ``ceph``, in whose place a script answers."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from trainfeed.errors import AccessDeniedError, ConfigError, NotFoundError, StorageError
from trainfeed.serving.pfs.ceph import CephProgram

SECRET = "AQBMRwRriX1YGhAAGMi6+WGfR/11wyBaDBK+xw=="


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Returns a function that puts a shell script in the place of ``ceph``."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(text: str) -> Path:
        program = tmp_path / "ceph"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return write


def test_arguments_reach_the_program_as_they_are(script, tmp_path):
    script(f'for each; do echo "$each"; done > {tmp_path}/seen; echo "{{}}"')
    odd = "allow rw path=/a, allow *; $(touch pwned) `id` 'x'"
    assert CephProgram(tmp_path / "ceph.conf", "boss").json("auth", "caps", odd) == {}
    assert (tmp_path / "seen").read_text().splitlines() == [
        *("--conf", f"{tmp_path}/ceph.conf", "--name", "client.boss", "--connect-timeout=30"),
        *("auth", "caps", odd, "--format=json"),
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (errno.EACCES, AccessDeniedError),
        (1, StorageError),
        (errno.ENOENT, NotFoundError),
        (errno.EINVAL, StorageError),
        (1 << 6, StorageError),
    ],
)
def test_the_status_says_which_error_it_is(script, status, kind):
    script(f'echo "noise" >&2; echo "Error X: said by the cluster" >&2; exit {status}')
    with pytest.raises(kind, match="ceph auth ls: Error X: said by the cluster") as refused:
        CephProgram().run("auth", "ls")
    assert type(refused.value) is kind
    assert not refused.value.is_outage


def test_a_cluster_that_does_not_answer_is_an_outage_after_the_time_limit(script):
    script("exec sleep 600")
    with pytest.raises(
        StorageError, match=r"no answer in 0\.2 s; the cluster may have done"
    ) as out:
        CephProgram(timeout_s=0.2).run("fsid")
    assert out.value.is_outage


def test_a_connection_that_times_out_is_an_outage(script):
    script("echo '[errno 110] RADOS timed out (error connecting to the cluster)' >&2; exit 1")
    with pytest.raises(StorageError) as out:
        CephProgram().run("fsid")
    assert out.value.is_outage


def test_no_error_repeats_output_that_may_hold_a_key(script):
    script(f"echo 'key = {SECRET}'")
    with pytest.raises(StorageError, match="expected JSON from ceph auth get") as refused:
        CephProgram().json("auth", "get", "client.alice")
    assert SECRET not in str(refused.value)


def test_a_key_that_the_cluster_does_not_know_is_denied(script):
    script("echo '[errno 13] RADOS permission denied (error connecting)' >&2; exit 1")
    with pytest.raises(AccessDeniedError, match="by --client"):
        CephProgram(client="stranger").run("fsid")


def test_a_missing_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="install ceph-common"):
        CephProgram().run("fsid")


def test_words_of_the_cluster_are_safe_to_show(script):
    script(r"printf 'Error: \033[2Jgone\n' >&2; exit 22")
    with pytest.raises(StorageError) as refused:
        CephProgram().run("fsid")
    assert "\033" not in str(refused.value)
