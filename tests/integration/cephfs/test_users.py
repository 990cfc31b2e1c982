"""Users on a real CephFS: made, listed, corrected and removed, also after kills.

Row S02 of the features; the attempts across borders are in ``test_borders.py``.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from operators.upkeep import SharedStorageOperator
from trainfeed.core import faults
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.serving.pfs.ceph import (
    QUOTA_BYTES,
    QUOTA_FILES,
    CephProgram,
    attribute,
    open_shared_storage,
)
from trainfeed.serving.pfs.users import (
    NAMESPACE,
    HomeWish,
    add_user,
    list_users,
    public_problems,
    remove_user,
)

MIB = 1 << 20
# What the upkeep calls the three attributes of a home.
LOSSES = ("quota of bytes", "quota of files", "namespace of new files")
# A program that writes an object for each line of its input, by the key of a user.
OBJECT_WRITER = """
import rados, sys
conf, user, keyring, namespace = sys.argv[1:]
cluster = rados.Rados(conffile=conf, rados_id=user, conf={"keyring": keyring})
cluster.connect(timeout=20)
pool = cluster.open_ioctx("data")
pool.set_namespace(namespace)
for line in sys.stdin:
    try:
        pool.write_full("object", b"x")
        print("written", flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
"""


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())


def killed_at(point: str, work: Callable[[], object]) -> None:
    """Run ``work`` in a process that is killed at a point."""
    process = os.fork()
    if process == 0:
        with suppress(BaseException):
            os.environ[faults.VARIABLE] = f"{point}:kill"
            faults._plan.cache_clear()
            work()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


@contextmanager
def mounted(centre, user, folder: Path, path: str | None = None) -> Iterator[Path]:
    path = centre.storage.layout.home(user) if path is None else path
    centre.ceph.mount(folder, client=user, subdir=path)
    try:
        yield folder
    finally:
        centre.ceph.unmount(folder)


@contextmanager
def writer_of_objects(centre, user: str, namespace: str) -> Iterator[Callable[[], str]]:
    """Start a program that uses objects without the file system; calls make it write one."""
    arguments = [str(centre.conf), user, str(centre.keyring(user)), namespace]
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", OBJECT_WRITER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    ) as process:

        def write() -> str:
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        try:
            yield write
        finally:
            process.kill()


def trainfeed(*arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "trainfeed", "pfs", "user", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_user_writes_at_home_within_a_quota_and_reads_what_is_public(centre, tmp_path):
    user = centre.new_name()
    added = centre.add(user, quota_bytes=4 * MIB, quota_files=20)
    (centre.storage.folder(centre.storage.layout.public) / "shared").write_bytes(b"for all")

    with mounted(centre, user, tmp_path / "home") as home:
        write_synced(home / "mine", b"mine")
        with pytest.raises(OSError, match="quota") as full:
            (home / "large").write_bytes(bytes(64 * MIB))
    with mounted(centre, user, tmp_path / "public", centre.storage.layout.public) as public:
        assert (public / "shared").read_bytes() == b"for all"

    assert full.value.errno == errno.EDQUOT
    assert (centre.home(user) / "mine").read_bytes() == b"mine"
    objects = centre.answer("rados", "-p", "data", "-N", added.namespace, "ls").split()
    assert f"{(centre.home(user) / 'mine').stat().st_ino:x}.00000000" in objects
    assert stat.S_IMODE(centre.keyring(user).stat().st_mode) == 0o600
    assert stat.S_IMODE(centre.home(user).stat().st_mode) == 0o700
    assert add_user(centre.storage, user, HomeWish()).changes == ()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "point",
    [
        "user.after_folder",
        "user.after_namespace",
        "user.after_quota",
        "user.after_key",
    ],
)
def test_add_goes_on_after_a_kill(centre, point):
    user = centre.new_name()
    killed_at(point, lambda: centre.add(user, quota_bytes=MIB, uid=1234))
    assert not centre.keyring(user).exists()

    added = centre.add(user, quota_bytes=MIB, uid=1234)

    assert centre.keyring(user).read_text().startswith(f"[client.{user}]")
    (state,) = (each for each in list_users(centre.storage) if each.user == user)
    assert state.problems == ()
    assert (state.quota_bytes, state.owner) == (MIB, "1234:0")
    assert attribute(centre.home(user), NAMESPACE) == added.namespace
    assert centre.add(user, quota_bytes=MIB, uid=1234).changes == ()


def test_rm_cuts_off_clients_that_run(centre, tmp_path):
    user = centre.new_name()
    namespace = centre.add(user).namespace
    with (
        mounted(centre, user, tmp_path / "home") as home,
        writer_of_objects(centre, user, namespace) as write,
        (home / "open").open("wb", buffering=0) as file,
    ):
        file.write(b"before")
        os.fsync(file.fileno())
        assert write() == "written"

        removed = remove_user(centre.storage, user)

        for access in (
            lambda: names(home),
            (home / "new").touch,
            lambda: (file.write(b"after"), os.fsync(file.fileno())),
        ):
            with pytest.raises(OSError, match="transport endpoint") as refused:
                access()
            assert refused.value.errno == errno.ESHUTDOWN
        assert "ConnectionShutdown" in write() or "108" in write()
        with suppress(OSError):
            file.close()

    assert removed.had_key
    assert removed.kept_home == centre.home(user)
    assert len(removed.ended.addresses) == 2
    assert (centre.home(user) / "open").read_bytes() == b"before"
    status, said = centre.run("rados", "-p", "data", "-N", namespace, "ls", user=user)
    assert status != 0, said


@pytest.mark.nightly
@pytest.mark.parametrize(
    "point",
    [
        "user.after_revoke",
        "user.after_sessions",
        "user.after_rename",
    ],
)
def test_rm_goes_on_after_a_kill(centre, point, tmp_path):
    user = centre.new_name()
    centre.add(user)
    (centre.home(user) / "file").write_bytes(b"x")
    with mounted(centre, user, tmp_path / "home") as home:
        killed_at(point, lambda: remove_user(centre.storage, user, remove_home=True))
        assert centre.caps(user) == {}

        removed = remove_user(centre.storage, user, remove_home=True)

        with pytest.raises(OSError, match="transport endpoint"):
            names(home)
    assert removed.removed_home
    assert [each for each in names(centre.home(user).parent) if user in each] == []
    with pytest.raises(NotFoundError, match="neither a key nor"):
        remove_user(centre.storage, user, remove_home=True)


@pytest.mark.nightly
def test_caps_that_differ_are_listed_then_corrected_also_for_sessions_that_run(centre, tmp_path):
    user, other = centre.new_name(), centre.new_name()
    right = centre.add(user)
    centre.add(other)
    (centre.home(other) / "secret").write_bytes(b"secret")
    homes = centre.storage.layout.homes
    wide = f"allow rw path={centre.storage.layout.home(user)}, allow rw path={homes}"
    expected = centre.caps(user)
    centre.run("ceph", "auth", "caps", f"client.{user}", "mon", "allow r", "mds", wide)
    with mounted(centre, user, tmp_path / "homes", homes) as reached:
        assert names(reached / other) == ["secret"]
        (state,) = (each for each in list_users(centre.storage) if each.user == user)
        assert [problem.partition(":")[0] for problem in state.problems] == [
            "caps of mds",
            "caps of mon",
            "caps of osd",
        ]

        killed_at("user.after_narrow_caps", lambda: centre.add(user))
        corrected = centre.add(user)

        assert corrected.changes == ("caps of mds, osd corrected",)
        assert len(corrected.ended.addresses) == 1
        with pytest.raises(OSError, match="transport endpoint"):
            names(reached / other)
    assert centre.caps(user) == expected
    assert corrected.namespace == right.namespace


@dataclass(frozen=True)
class Meddled(CephProgram):
    """The program, beside an administrator who gives other caps to each key that it makes."""

    wide: str = ""

    def json(self, *arguments):
        found = super().json(*arguments)
        if arguments[:2] == ("auth", "get-or-create"):
            self.run("auth", "caps", arguments[2], "mon", "allow r", "mds", self.wide)
        return found


@pytest.mark.ci
def test_caps_that_somebody_changes_meanwhile_are_told_and_put_right_by_the_same_command(centre):
    user = centre.new_name()
    home = centre.storage.layout.home(user)
    wide = f"allow rw path={home}, allow rw path={centre.storage.layout.homes}"
    beside = replace(centre.storage, ceph=Meddled(centre.conf, wide=wide))
    with pytest.raises(StorageError, match="another administrator"):
        add_user(beside, user, HomeWish(), centre.keyring(user))
    assert not centre.keyring(user).exists()
    assert centre.add(user).changes[0].startswith("caps of mds")
    assert not centre.caps(user)["mds"].endswith(wide.rpartition(" ")[2])


@pytest.mark.nightly
def test_a_home_with_files_outside_a_namespace_of_its_own_is_refused_and_kept(centre):
    user, other = centre.new_name(), centre.new_name()
    centre.add(other)
    home = centre.home(user)
    home.mkdir()
    (home / "old").write_bytes(b"old")

    with pytest.raises(ConflictError, match="rename the folder, run the same command again, copy"):
        centre.add(user)

    assert (home / "old").read_bytes() == b"old"
    assert attribute(home, NAMESPACE) == ""
    assert centre.caps(user) == {}
    (home / "old").unlink()
    # The namespace of another user is none of its own.
    os.setxattr(home, NAMESPACE, attribute(centre.home(other), NAMESPACE).encode())
    (home / "old").write_bytes(b"old")
    with pytest.raises(ConflictError, match="in one namespace of its own, got"):
        centre.add(user)
    (home / "old").unlink()
    assert centre.add(user).namespace.startswith(centre.storage.layout.home(user)[1:])


@pytest.mark.nightly
def test_a_key_of_another_use_is_neither_changed_nor_removed(centre):
    user = centre.new_name("backup")
    centre.run("ceph", "auth", "get-or-create", f"client.{user}", "mon", "allow r")
    try:
        before = centre.caps(user)
        for change in (lambda: centre.add(user), lambda: remove_user(centre.storage, user)):
            with pytest.raises(ConflictError, match="a key of another use"):
                change()
        assert centre.caps(user) == before == {"mon": "allow r"}
        assert not centre.home(user).exists()
        assert user not in [each.user for each in list_users(centre.storage)]
    finally:
        centre.run("ceph", "auth", "rm", f"client.{user}")


@pytest.mark.nightly
def test_a_name_that_is_given_again_does_not_reach_objects_of_the_user_before(centre):
    user = centre.new_name()
    before = centre.add(user).namespace
    arguments = ("-p", "data", "-N", before)
    assert centre.run("rados", *arguments, "create", "left", user=user)[0] == 0
    remove_user(centre.storage, user, remove_home=True)
    centre.keyring(user).unlink()

    after = centre.add(user).namespace

    assert after != before
    assert centre.run("rados", *arguments, "stat", "left")[0] == 0
    status, said = centre.run("rados", *arguments, "stat", "left", user=user)
    assert status == 1
    assert "Operation not permitted" in said


@pytest.mark.nightly
def test_files_of_the_public_folder_without_its_namespace_are_refused(centre):
    storage = open_shared_storage(centre.storage.ceph, centre.ceph.path, centre.new_name("dc"))
    public = storage.folder(storage.layout.public)
    public.mkdir(parents=True)
    try:
        (public / "old").write_bytes(b"x")
        with pytest.raises(ConflictError, match="copy the files into the new folder"):
            add_user(storage, "someone", HomeWish(), centre.keyring("someone"))
        assert public_problems(storage) != ()
        assert centre.caps("someone") == {}
    finally:
        (public / "old").unlink()
        for folder in (public, public.with_name("home"), public.parent):
            folder.rmdir()


@pytest.mark.nightly
def test_a_namespace_that_a_user_removed_is_listed_and_put_back(centre, tmp_path):
    """Ceph 16 lets every key that reads a folder remove the attribute; no byte is seen by that."""
    user, other = centre.new_name(), centre.new_name()
    namespace = centre.add(user).namespace
    layout, public = centre.storage.layout, centre.storage.folder(centre.storage.layout.public)
    centre.add(other)
    (centre.home(user) / "folder").mkdir()
    (centre.home(user) / "folder" / "mine").write_bytes(b"mine")
    (public / "before").write_bytes(b"for all")
    with (
        mounted(centre, user, tmp_path / "home") as home,
        mounted(centre, user, tmp_path / "public", layout.public) as shared,
    ):
        os.removexattr(home, "ceph.dir.layout")
        os.removexattr(shared, "ceph.dir.layout")
        (public / "after").write_bytes(b"not in the public namespace")
        os.sync()
        with pytest.raises(PermissionError):
            (shared / "after").read_bytes()
        with pytest.raises(PermissionError):
            write_synced(home / "after", b"x")
        assert (shared / "before").read_bytes() == b"for all"

        (state,) = (each for each in list_users(centre.storage) if each.user == user)
        assert "namespace ''" in state.problems[0]
        assert "cannot read files" in public_problems(centre.storage)[0]
        with pytest.raises(ConflictError, match=f"got {public}/after in no namespace"):
            centre.add(user)
        (public / "after").unlink()
        (centre.home(user) / "after").unlink()
        changes = centre.add(user).changes

    assert changes == (
        f"{layout.public} has the namespace {layout.public_namespace} again",
        f"{layout.home(user)} has the namespace {namespace} again",
    )
    assert public_problems(centre.storage) == ()


def look(centre) -> None:
    """Run the task of the nightly upkeep that looks at homes."""
    name = centre.storage.layout.datacenter
    params = {"mount": str(centre.ceph.path), "datacenter": name}
    ti = SimpleNamespace(xcom_push=lambda **_: None)
    SharedStorageOperator(task_id="look").execute({"params": params, "ti": ti})


def test_a_user_cannot_take_the_quota_off_its_home(centre, tmp_path):
    """Row S02: Ceph 16 keeps quotas from keys without the right ``p``, also from removal."""
    user = centre.new_name()
    centre.add(user, quota_bytes=4 * MIB, quota_files=20)
    home = centre.home(user)
    with mounted(centre, user, tmp_path / "home") as own:
        for name in ("ceph.quota", QUOTA_BYTES, QUOTA_FILES):
            with pytest.raises(OSError, match=str(tmp_path)) as refused:
                os.removexattr(own, name)
            assert refused.value.errno in {errno.ENODATA, errno.EPERM, errno.EACCES}
            for value in (b"", b"0", b"max_bytes=0 max_files=0"):
                with pytest.raises(OSError, match=str(tmp_path)):
                    os.setxattr(own, name, value)
    assert (attribute(home, QUOTA_BYTES), attribute(home, QUOTA_FILES)) == (str(4 * MIB), "20")
    look(centre)


def test_what_a_home_has_lost_is_reported_at_night_and_put_back(centre, tmp_path, caplog):
    """Row S02: Ceph 16 lets every key that reads a folder remove its namespace."""
    user, beside = centre.new_name(), centre.new_name()
    namespace = centre.add(user, quota_bytes=4 * MIB, quota_files=20).namespace
    centre.add(beside, quota_bytes=MIB)
    home, public = centre.home(user), centre.storage.folder(centre.storage.layout.public)
    given = {QUOTA_BYTES: str(4 * MIB), QUOTA_FILES: "20", NAMESPACE: namespace}
    look(centre)
    with (
        mounted(centre, user, tmp_path / "home") as own,
        mounted(centre, user, tmp_path / "public", centre.storage.layout.public) as shared,
    ):
        write_synced(own / "before", b"before")
        os.removexattr(own, "ceph.dir.layout")
        os.removexattr(shared, "ceph.dir.layout")
        # A quota goes only by a key with more rights.
        for name in (QUOTA_BYTES, QUOTA_FILES):
            os.setxattr(home, name, b"0")
        assert [attribute(home, name) for name in given] == ["", "", ""]

        with pytest.raises(AirflowFailException, match="pfs user add"):
            look(centre)
        assert all(f"{home}: {what}" in caplog.text for what in LOSSES)
        assert f"{public}: namespace" in caplog.text
        assert str(centre.home(beside)) not in caplog.text
        assert attribute(home, NAMESPACE) == ""

        done = trainfeed("add", user, *centre.options, "--keyring", str(centre.keyring(user)))

        assert done.returncode == 0, done.stderr
        assert {name: attribute(home, name) for name in given} == given
        look(centre)
        write_synced(own / "after", b"after")
        assert (own / "before").read_bytes() == b"before"
        with pytest.raises(OSError, match="quota") as full:
            (own / "large").write_bytes(bytes(64 * MIB))
    assert full.value.errno == errno.EDQUOT


@pytest.mark.nightly
def test_a_home_with_snapshots_is_removed_after_them(centre):
    user = centre.new_name()
    centre.add(user)
    (centre.home(user) / "file").write_bytes(b"x")
    (centre.home(user) / ".snap" / "kept").mkdir()

    with pytest.raises(ConflictError, match=r"has snapshots.*rmdir") as refused:
        remove_user(centre.storage, user, remove_home=True)

    renamed = centre.home(user).with_name(f".removed-{user}")
    assert str(renamed) in str(refused.value)
    assert (renamed / ".snap" / "kept" / "file").read_bytes() == b"x"
    assert centre.caps(user) == {}
    (renamed / ".snap" / "kept").rmdir()
    assert remove_user(centre.storage, user, remove_home=True).removed_home
    assert not renamed.exists()


@pytest.mark.nightly
def test_a_file_that_is_renamed_into_the_public_folder_stays_closed_and_a_copy_is_open(
    centre, tmp_path
):
    owner, reader = centre.new_name(), centre.new_name()
    centre.add(owner)
    centre.add(reader)
    layout, public = centre.storage.layout, centre.storage.folder(centre.storage.layout.public)
    write_synced(centre.home(owner) / "model", b"model")
    shutil.copy(centre.home(owner) / "model", public / "copied")
    (centre.home(owner) / "model").rename(public / "renamed")
    os.sync()
    with mounted(centre, reader, tmp_path / "public", layout.public) as shared:
        assert (shared / "copied").read_bytes() == b"model"
        with pytest.raises(PermissionError):
            (shared / "renamed").read_bytes()
    (public / "renamed").unlink()


@pytest.mark.nightly
def test_a_mount_below_the_root_of_the_file_system_is_refused(centre, tmp_path):
    """Caps would name a path at which another folder is, or none."""
    below = f"/pfs/{centre.storage.layout.datacenter}"
    user = centre.new_name()
    with mounted(centre, "admin", tmp_path / "below", below) as mount:
        storage = open_shared_storage(centre.storage.ceph, mount, "inner")
        with pytest.raises(UnsuitableStoreError, match="mount the root"):
            add_user(storage, user, HomeWish(), centre.keyring(user))
    assert centre.caps(user) == {}
    with pytest.raises(UnsuitableStoreError, match="expected a mounted CephFS"):
        open_shared_storage(centre.storage.ceph, tmp_path, "dc")


@pytest.mark.nightly
def test_the_commands_print_no_key_unless_asked(centre, tmp_path):
    user, options = centre.new_name(), centre.options
    keyring = tmp_path / "user.keyring"
    refused = trainfeed("add", user, *options)
    assert refused.returncode == 2
    assert "name one by --keyring" in refused.stderr
    added = trainfeed("add", user, *options, "--quota", "1MiB", "--keyring", str(keyring))
    assert added.returncode == 0, added.stderr
    key = keyring.read_text().partition("key = ")[2].strip()
    assert len(key) == 40
    listed = trainfeed("ls", *options, "--json")
    rows = {each["user"]: each for each in json.loads(listed.stdout)["users"]}
    assert rows[user]["quota_bytes"] == MIB
    assert rows[user]["problems"] == []
    asked = trainfeed("add", user, *options, "--print-key")
    assert asked.stdout == keyring.read_text()
    refused = trainfeed("rm", user, *options, "--remove-home")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    removed = trainfeed("rm", user, *options, "--remove-home", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert not centre.home(user).exists()
    for done in (added, listed, removed):
        assert key not in done.stdout + done.stderr
    # The log of the monitors has every command with its arguments.
    assert key not in centre.run("ceph", "log", "last", "10000", "debug", "audit")[1]


@pytest.mark.nightly
def test_a_keyring_file_of_another_content_stops_before_any_change(centre, tmp_path):
    user, keyring = centre.new_name(), tmp_path / "user.keyring"
    keyring.write_text("[client.other]\n\tkey = x\n")
    with pytest.raises(ConflictError, match="left as it is"):
        add_user(centre.storage, user, HomeWish(), keyring)
    assert keyring.read_text().startswith("[client.other]")
    assert not centre.home(user).exists()
    assert centre.caps(user) == {}
    with pytest.raises(ConfigError, match="--keyring"):
        add_user(centre.storage, user, HomeWish())
