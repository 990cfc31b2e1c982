"""Attempts of a user to reach what is another's, by mounts, by objects and by commands.

Row S02 of the features. Each row of the tables is one attempt with the thief's own key and the
words of its refusal. After each attempt all files of the victim and of the public are compared, and
at the end the objects, keys and pools too. The controls run the same calls with a key that may, so
that a refusal is not a call that never works.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.integration.cephfs.conftest import DataCenter
from trainfeed.serving.pfs.ceph import SharedStorage

KEPT = "kept"
SECRET = b"nobody else may read this\n"
ATTRIBUTES = (
    *("ceph.dir.layout", "ceph.quota.max_bytes", "ceph.quota.max_files", "ceph.dir.pin"),
    *("user.note", "ceph.file.layout"),
)


@dataclass(frozen=True)
class Border:
    """A thief and a victim with a key each, and the thief's two mounts."""

    centre: DataCenter
    thief: str
    victim: str
    home: Path
    public: Path
    names: dict[str, str]

    @property
    def storage(self) -> SharedStorage:
        return self.centre.storage

    def command(self, text: str, user: str, **names: str) -> tuple[int, str]:
        """Run a command whose words may hold names of this border in braces."""
        words = [word.format(**{**self.names, **names}) for word in text.split()]
        return self.centre.run(*words, user=user)

    def state(self) -> dict[str, object]:
        """Everything about the files that are not the thief's."""
        storage = self.storage
        folders = [self.centre.home(self.victim), storage.folder(storage.layout.public)]
        paths = [path for top in folders for path in (top, *sorted(top.rglob("*")))]
        return {str(path): (attributes(path), facts(path)) for path in paths}

    def cluster_state(self) -> dict[str, object]:
        """Objects of the victim, of the public and of the metadata; keys; pools."""
        ceph = self.storage.ceph
        keys = {
            each["entity"]: (each["key"], each["caps"])
            for each in ceph.json("auth", "ls")["auth_dump"]
        }
        objects = {
            name: self.objects(self.names[name])
            for name in ("victim_namespace", "public_namespace")
        }
        pools = [
            (each["pool_name"], each["size"], each["pool_snaps"])
            for each in ceph.json("osd", "dump")["pools"]
        ]
        settings = ceph.json("config", "dump")
        return {"keys": keys, "objects": objects, "pools": pools, "settings": settings}

    def objects(self, namespace: str) -> dict[str, str]:
        """Name → bytes, keys and attributes of each object of a namespace."""
        asked = (("get", "-"), ("listomapkeys",), ("listxattr",))
        return {
            name: "".join(self.rados(namespace, what, name, *to) for what, *to in asked)
            for name in self.rados(namespace, "ls").split()
        }

    def rados(self, namespace: str, *arguments: str) -> str:
        return self.centre.answer("rados", "-p", "data", "-N", namespace, *arguments)


def attributes(path: Path) -> dict[str, bytes]:
    found = {}
    for name in ATTRIBUTES:
        try:
            found[name] = os.getxattr(path, name, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
                raise
    return found


def facts(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return found.st_mode, found.st_uid, found.st_gid, found.st_nlink, found.st_mtime_ns, content


@pytest.fixture(scope="module")
def border(centre: DataCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Border]:
    thief, victim = centre.new_name("thief"), centre.new_name("victim")
    quotas = {"quota_bytes": 8 << 20, "quota_files": 100}
    added, of_victim = centre.add(thief, **quotas), centre.add(victim, **quotas)
    home, public = centre.home(victim), centre.storage.folder(centre.storage.layout.public)
    fill(home)
    fill(public)
    (centre.home(thief) / "own").write_bytes(b"own")
    (centre.home(thief) / ".snap" / KEPT).mkdir()
    root_file = centre.ceph.path / f"of-root-{uuid.uuid4().hex}"
    root_file.write_bytes(SECRET)
    os.sync()
    mounts = tmp_path_factory.mktemp("mounts")
    centre.ceph.mount(mounts / "home", client=thief, subdir=centre.storage.layout.home(thief))
    centre.ceph.mount(mounts / "public", client=thief, subdir=centre.storage.layout.public)
    names = {
        "thief": thief,
        "victim": victim,
        "datacenter": centre.storage.layout.datacenter,
        "object": object_of(home / "secret"),
        "public_object": object_of(public / "secret"),
        "root_object": object_of(root_file),
        "metadata_object": metadata_of(home),
        "namespace": added.namespace,
        "victim_namespace": of_victim.namespace,
        "public_namespace": centre.storage.layout.public_namespace,
        "fs": centre.storage.layout.file_system,
        "new": "of-the-thief",
    }
    border = Border(centre, thief, victim, mounts / "home", mounts / "public", names)
    before, cluster_before = border.state(), border.cluster_state()
    try:
        yield border
        # Also where the tests of this module are spread over processes.
        assert border.state() == before
        cluster_after = border.cluster_state()
        changed = {what for what, was in cluster_before.items() if cluster_after[what] != was}
        assert not changed, {what: (cluster_before[what], cluster_after[what]) for what in changed}
    finally:
        # A folder of tests must not be removed while a home is mounted in it.
        for mount in (border.home, border.public):
            centre.ceph.unmount(mount)
        (centre.home(thief) / ".snap" / KEPT).rmdir()
        root_file.unlink()


def fill(folder: Path) -> None:
    (folder / "folder").mkdir()
    (folder / "empty").mkdir()
    for path in (folder / "secret", folder / "folder" / "inner"):
        path.write_bytes(SECRET)
        os.setxattr(path, "user.note", b"mine")


def object_of(path: Path) -> str:
    return f"{path.stat().st_ino:x}.00000000"


def metadata_of(folder: Path) -> str:
    return f"{folder.stat().st_ino:x}.00000000"


# --- mounts ---------------------------------------------------------------------------------

MOUNTS = {
    "the root of the file system": "/",
    "the folder of the data centre": "/pfs/{datacenter}",
    "the folder of all homes": "/pfs/{datacenter}/home",
    "the home of another": "/pfs/{datacenter}/home/{victim}",
    "a folder in the home of another": "/pfs/{datacenter}/home/{victim}/folder",
    "the home of another through ..": "/pfs/{datacenter}/home/{thief}/../{victim}",
}


def mounts_at(border: Border, path: str, user: str, target: Path) -> tuple[bool, str]:
    """Try to mount a path by the key of a user; return whether that worked, and what was said."""
    target.mkdir()
    command = ["ceph-fuse", "-c", str(border.centre.conf), "-n", f"client.{user}"]
    done = subprocess.run(
        [*command, "-r", path.format(**border.names), str(target)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    is_mounted = os.path.ismount(target)
    if is_mounted:
        subprocess.run(["umount", target], check=True)
    return is_mounted, done.stdout + done.stderr


@pytest.mark.parametrize("path", MOUNTS.values(), ids=MOUNTS)
def test_a_mount_is_refused(border, path, tmp_path):
    before = border.state()
    is_mounted, said = mounts_at(border, path, border.thief, tmp_path / "mount")
    assert not is_mounted
    assert "mount failed" in said
    assert border.state() == before


def test_the_owner_mounts_what_the_thief_may_not(border, tmp_path):
    path = MOUNTS["a folder in the home of another"]
    assert (
        mounts_at(border, path, border.victim, tmp_path / "mount") == (True, pytest.approx)
        or (mounts_at(border, path, border.victim, tmp_path / "again")[0])
    )


# --- calls of the system on the two mounts ---------------------------------------------------


def overwrite(folder: Path) -> None:
    descriptor = os.open(folder / "secret", os.O_WRONLY)
    os.write(descriptor, b"x")
    os.close(descriptor)


def append(folder: Path) -> None:
    descriptor = os.open(folder / "secret", os.O_WRONLY | os.O_APPEND)
    os.close(descriptor)


IN_PUBLIC: dict[str, Callable[[Path], object]] = {
    "make a file": lambda folder: (folder / "new").touch(),
    "write into a file": overwrite,
    "append to a file": append,
    "truncate a file": lambda folder: os.truncate(folder / "secret", 0),
    "make a folder": lambda folder: (folder / "new-folder").mkdir(),
    "make a symbolic link": lambda folder: (folder / "link").symlink_to("secret"),
    "make a hard link": lambda folder: os.link(folder / "secret", folder / "hard"),
    "rename a file": lambda folder: (folder / "secret").rename(folder / "folder" / "moved"),
    "rename onto a file": lambda folder: (folder / "folder" / "inner").rename(folder / "secret"),
    "change a mode": lambda folder: (folder / "secret").chmod(0o777),
    "change an owner": lambda folder: os.chown(folder / "secret", 1, 1),
    "change times": lambda folder: os.utime(folder / "secret", (1, 1)),
    "set an attribute": lambda folder: os.setxattr(folder / "secret", "user.note", b"x"),
    "set a quota": lambda folder: os.setxattr(folder, "ceph.quota.max_bytes", b"1"),
    "set a namespace": lambda folder: set_namespace(folder, "elsewhere"),
    "take a snapshot": lambda folder: (folder / ".snap" / "new").mkdir(),
    "remove a file": lambda folder: (folder / "secret").unlink(),
    "remove a folder": lambda folder: (folder / "empty").rmdir(),
}


def set_namespace(folder: Path, namespace: str) -> None:
    os.setxattr(folder, "ceph.dir.layout.pool_namespace", namespace.encode())


@pytest.mark.parametrize("call", IN_PUBLIC.values(), ids=IN_PUBLIC)
def test_a_change_of_the_public_folder_is_refused(border, call):
    before = border.state()
    with pytest.raises(OSError, match=r"Permission denied|Operation not permitted") as refused:
        call(border.public)
    assert refused.value.errno in (errno.EACCES, errno.EPERM)
    assert border.state() == before


def test_the_public_folder_and_own_snapshots_are_read(border):
    assert (border.public / "secret").read_bytes() == SECRET
    assert (border.home / ".snap" / KEPT / "own").read_bytes() == b"own"


@pytest.mark.parametrize("call", IN_PUBLIC.values(), ids=IN_PUBLIC)
def test_an_administrator_makes_the_same_change(border, call):
    folder = border.centre.ceph.path / f"control-{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        if call is not IN_PUBLIC["set a namespace"]:
            fill(folder)
        call(folder)
    finally:
        for snapshot in (folder / ".snap").iterdir():
            snapshot.rmdir()
        subprocess.run(["rm", "-rf", folder], check=True)


AT_HOME: dict[str, tuple[str, Callable[[Border], object]]] = {
    "raise the quota of bytes": (
        "Permission denied",
        lambda border: os.setxattr(border.home, "ceph.quota.max_bytes", b"99999999999"),
    ),
    "remove the quota of files": (
        "Permission denied",
        lambda border: os.setxattr(border.home, "ceph.quota.max_files", b"0"),
    ),
    "take the namespace of another": (
        "Permission denied",
        lambda border: set_namespace(border.home / "empty", border.names["victim_namespace"]),
    ),
    "make a file in the namespace of another": (
        "Permission denied",
        lambda border: os.setxattr(
            border.home / "own",
            "ceph.file.layout.pool_namespace",
            border.names["victim_namespace"].encode(),
        ),
    ),
    "take another pool": (
        "Permission denied",
        lambda border: os.setxattr(border.home / "empty", "ceph.dir.layout.pool", b"data"),
    ),
    "take a snapshot": (
        "Permission denied|Operation not permitted",
        lambda border: (border.home / ".snap" / "new").mkdir(),
    ),
    "remove a snapshot of the administrator": (
        "Permission denied|Operation not permitted",
        lambda border: (border.home / ".snap" / KEPT).rmdir(),
    ),
    "write into a snapshot": (
        "Read-only file system",
        lambda border: (border.home / ".snap" / KEPT / "own").write_bytes(b"x"),
    ),
    "read through ..": (
        "No such file",
        lambda border: (border.home / ".." / border.victim / "secret").read_bytes(),
    ),
    "read through a relative link": (
        "No such file",
        lambda border: read_link(border.home, f"../{border.victim}/secret"),
    ),
    "read through an absolute link": (
        "No such file",
        lambda border: read_link(
            border.home, f"{border.storage.layout.home(border.victim)}/secret"
        ),
    ),
    "write through a link": (
        "No such file",
        lambda border: write_link(border.home, f"../{border.victim}/new"),
    ),
    "hard link out of the public folder": (
        "cross-device",
        lambda border: os.link(border.public / "secret", border.home / "hard"),
    ),
    "rename out of the public folder": (
        "cross-device",
        lambda border: (border.public / "secret").rename(border.home / "moved"),
    ),
    "rename into the public folder": (
        "cross-device",
        lambda border: (border.home / "own").rename(border.public / "moved"),
    ),
}


def read_link(home: Path, target: str) -> bytes:
    link = home / f"link-{uuid.uuid4().hex}"
    link.symlink_to(target)
    return link.read_bytes()


def write_link(home: Path, target: str) -> None:
    link = home / f"link-{uuid.uuid4().hex}"
    link.symlink_to(target)
    link.write_bytes(b"x")


@pytest.mark.parametrize(("words", "call"), AT_HOME.values(), ids=AT_HOME)
def test_a_call_in_the_own_home_reaches_nothing_else(border, words, call):
    before = border.state()
    (border.home / "empty").mkdir(exist_ok=True)
    (border.home / "own").touch()
    with pytest.raises(OSError, match=words):
        call(border)
    assert border.state() == before


@pytest.mark.parametrize(
    "what",
    [what for what in AT_HOME if "quota" in what or "take" in what or "remove a snap" in what],
)
def test_an_administrator_sets_the_same_of_a_home(border, what):
    user = border.centre.new_name("control")
    home = border.centre.home(user)
    home.mkdir()
    try:
        (home / "empty").mkdir()
        (home / ".snap" / KEPT).mkdir()
        AT_HOME[what][1](replace(border, home=home))
    finally:
        for snapshot in (home / ".snap").iterdir():
            snapshot.rmdir()
        subprocess.run(["rm", "-rf", home], check=True)


# --- inodes by number, with the library of CephFS --------------------------------------------


def open_by_inode(border: Border, user: str, inode: int) -> int:
    """Ask the metadata server for a file by its number, without a path; return its answer."""
    program = (
        "import ctypes, sys\n"
        "conf, user, home, inode = sys.argv[1:]\n"
        "library = ctypes.CDLL('libcephfs.so.2')\n"
        "library.ceph_ll_lookup_inode.argtypes = ["
        "ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]\n"
        "mount, found = ctypes.c_void_p(), ctypes.c_void_p()\n"
        "assert library.ceph_create(ctypes.byref(mount), user.encode()) == 0\n"
        "assert library.ceph_conf_read_file(mount, conf.encode()) == 0\n"
        "assert library.ceph_mount(mount, home.encode()) == 0\n"
        "print(library.ceph_ll_lookup_inode(mount, int(inode), ctypes.byref(found)), flush=True)\n"
        "import os; os._exit(0)\n"
    )
    arguments = [str(border.centre.conf), user, border.storage.layout.home(user), str(inode)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_file_is_not_opened_by_the_number_of_its_inode(border):
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    inode = (border.centre.home(border.victim) / "secret").stat().st_ino
    assert open_by_inode(border, border.victim, inode) == 0
    assert open_by_inode(border, border.thief, inode) == -errno.EACCES


# --- objects, without the file system ---------------------------------------------------------

DENIED = "Operation not permitted"
OF_VICTIM = "rados -p data -N {victim_namespace}"
OBJECTS = {
    "read": f"{OF_VICTIM} get {{object}} -",
    "size": f"{OF_VICTIM} stat {{object}}",
    "write": f"{OF_VICTIM} create {{new}}",
    "truncate": f"{OF_VICTIM} truncate {{object}} 0",
    "remove": f"{OF_VICTIM} rm {{object}}",
    "read attributes": f"{OF_VICTIM} listxattr {{object}}",
    "set an attribute": f"{OF_VICTIM} setxattr {{object}} a b",
    "read omap": f"{OF_VICTIM} listomapvals {{object}}",
    "write omap": f"{OF_VICTIM} setomapval {{object}} a b",
    "clear omap": f"{OF_VICTIM} clearomap {{object}}",
    "lock": f"{OF_VICTIM} lock get {{object}} name",
    "copy": f"{OF_VICTIM} cp {{object}} {{new}}",
    "notify watchers": f"{OF_VICTIM} notify {{object}} x",
}
ELSEWHERE = {
    "write a public object": "rados -p data -N {public_namespace} truncate {public_object} 0",
    "remove a public object": "rados -p data -N {public_namespace} rm {public_object}",
    "read an object without a namespace": "rados -p data get {root_object} -",
    "write an object without a namespace": "rados -p data create {new}",
    "read the folder of a home in the pool of metadata": (
        "rados -p metadata listomapvals {metadata_object}"
    ),
    "remove metadata": "rados -p metadata rm {metadata_object}",
}


@pytest.mark.parametrize(
    "command", [*OBJECTS.values(), *ELSEWHERE.values()], ids=[*OBJECTS, *ELSEWHERE]
)
def test_an_object_of_others_is_refused(border, command):
    before = border.state()
    status, said = border.command(command, border.thief)
    assert status != 0, said
    assert DENIED in said or "(1)" in said
    assert SECRET.decode() not in said
    assert border.state() == before


@pytest.mark.parametrize("command", OBJECTS.values(), ids=OBJECTS)
def test_the_owner_uses_objects_of_the_own_namespace(border, command):
    new = uuid.uuid4().hex
    scratch = {"object": f"scratch-{new}", "new": f"new-{new}"}
    for name in scratch.values():
        border.command(f"{OF_VICTIM} rm {name}", border.victim)
    try:
        if "create" not in command:
            assert (
                border.command(f"{OF_VICTIM} create {{object}}", border.victim, **scratch)[0] == 0
            )
        status, said = border.command(command, border.victim, **scratch)
        # A lock is code in the osd, and a copy keeps its version; no user has the rights for them.
        needs_more = command in (OBJECTS["lock"], OBJECTS["copy"])
        assert (status == 0) != needs_more, said
    finally:
        for name in scratch.values():
            border.command(f"{OF_VICTIM} rm {name}", border.victim)
    left = border.rados(border.names["victim_namespace"], "ls").split()
    assert not set(scratch.values()).intersection(left)


@pytest.mark.parametrize(
    "command",
    ["rados -p data -N {victim_namespace} ls", "rados -p data --all ls", "rados -p metadata ls"],
)
def test_a_list_has_no_object_of_others(border, command):
    _, said = border.command(command, border.thief)
    for name in ("object", "root_object", "metadata_object", "victim_namespace"):
        assert border.names[name] not in said
    assert border.command(command, "admin")[1].strip()


def test_snapshots_of_the_whole_pool_are_not_managed_by_a_user(border):
    program = (
        "import rados, sys\n"
        "cluster = rados.Rados(conffile=sys.argv[1], rados_id=sys.argv[2])\n"
        "cluster.connect(timeout=20)\n"
        "pool = cluster.open_ioctx('data')\n"
        "pool.set_namespace(sys.argv[3])\n"
        "for call in (pool.create_self_managed_snap, lambda: pool.remove_self_managed_snap(1)):\n"
        "    try:\n"
        "        call(); print('done')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
    )
    arguments = [str(border.centre.conf), border.thief, border.names["namespace"]]
    done = subprocess.run(
        ["/usr/bin/python3", "-c", program, *arguments],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["PermissionError", "PermissionError"], done.stderr


# --- commands to the cluster ------------------------------------------------------------------

READS = {
    "the key of another": "ceph auth get client.{victim}",
    "the key of another, alone": "ceph auth print-key client.{victim}",
    "all keys": "ceph auth ls",
    "stored secrets": "ceph config-key ls",
    "clients of the metadata server": "ceph tell mds.{fs}:0 session ls",
    "clients of the monitors": "ceph tell mon.a sessions",
    "the cache of the metadata server": "ceph tell mds.{fs}:0 dump tree / 1",
    "operations of an osd": "ceph tell osd.0 dump_ops_in_flight",
}
CHANGES = {
    "own caps": "ceph auth caps client.{thief} mon allow* mds allow* osd allow*",
    "own path": "ceph fs authorize {fs} client.{thief} / rw",
    "a new key": "ceph auth get-or-create client.{new} mon allow*",
    "the key of another": "ceph auth rm client.{victim}",
    "a stored secret": "ceph config-key set {new} x",
    "settings": "ceph config set global debug_ms 1",
    "the file system": "ceph fs rm {fs} --yes-i-really-mean-it",
    "a pool": "ceph osd pool delete data data --yes-i-really-really-mean-it",
    "a new pool": "ceph osd pool create {new} 1",
    "snapshots of a pool": "ceph osd pool mksnap data {new}",
    "a client": "ceph osd blocklist add 127.0.0.1:0/1",
    "a session": "ceph tell mds.{fs}:0 session evict auth_name={victim}",
    "the metadata server": "ceph mds fail a",
    "volumes": "ceph fs subvolume create {fs} {new}",
}


@pytest.mark.parametrize(
    "command",
    [*READS.values(), *CHANGES.values()],
    ids=[*(f"read {what}" for what in READS), *(f"change {what}" for what in CHANGES)],
)
def test_a_command_to_the_cluster_is_refused(border, command):
    before = border.state()
    status, said = border.command(command, border.thief)
    assert status == errno.EACCES, said
    assert "EACCES" in said
    assert border.state() == before


@pytest.mark.parametrize("command", READS.values(), ids=READS)
def test_an_administrator_runs_the_same_command(border, command):
    status, said = border.command(command, "admin")
    assert status == 0, said


def test_nothing_of_the_others_was_changed_by_any_attempt(border):
    """Runs last; the comparison of the whole cluster follows at the end of the fixture."""
    home = border.centre.home(border.victim)
    assert (home / "secret").read_bytes() == SECRET
    assert (home / "folder" / "inner").read_bytes() == SECRET
    assert border.objects(border.names["victim_namespace"])[border.names["object"]] == (
        SECRET.decode()
    )
