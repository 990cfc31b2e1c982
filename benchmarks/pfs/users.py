"""``python -m benchmarks.pfs.users``: seconds to add, list and remove users of a real CephFS.

``TEST_CEPHFS_PATH`` names the mount of ``python -m services run cephfs``. The clients that a
removal cuts off are a mount, which writes and syncs a file again and again, and a program that
writes objects alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final, cast

from services.cephfs import CephFS
from trainfeed.serving.pfs.ceph import CephProgram, SharedStorage, open_shared_storage
from trainfeed.serving.pfs.users import HomeWish, add_user, list_users, remove_user

_KEYS: Final = "keys/client.{}.keyring"


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a step by the clock, and of the processor: ours and of ``ceph``."""
    begin, before = time.monotonic(), sum(os.times()[:4])
    work()
    return round(time.monotonic() - begin, 2), round(sum(os.times()[:4]) - before, 2)


class _Accesses(threading.Thread):
    """Repeats an access until it is refused; ``refused`` is the time of that."""

    def __init__(self, access: Callable[[], bool]) -> None:
        super().__init__()
        self._access = access
        self.refused = 0.0

    def run(self) -> None:
        while self._access():
            pass
        self.refused = time.monotonic()


def _file_access(folder: Path) -> Callable[[], bool]:
    def access() -> bool:
        try:
            with (folder / "file").open("wb", buffering=0) as file:
                file.write(b"x")
                os.fsync(file.fileno())
        except OSError:
            return False
        return True

    return access


def _object_access(ceph: CephFS, user: str, namespace: str) -> Callable[[], bool]:
    program = (
        "import rados, sys\n"
        "cluster = rados.Rados(conffile=sys.argv[1], rados_id=sys.argv[2])\n"
        "cluster.connect(timeout=20)\n"
        "pool = cluster.open_ioctx('data')\n"
        "pool.set_namespace(sys.argv[3])\n"
        "for line in sys.stdin:\n"
        "    pool.write_full('object', b'x')\n"
        "    print('written', flush=True)\n"
    )
    process = subprocess.Popen(
        ["/usr/bin/python3", "-c", program, str(ceph.home / "ceph.conf"), user, namespace],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
        text=True,
    )
    sent, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)

    def access() -> bool:
        sent.write("\n")
        sent.flush()
        return answers.readline() == "written\n"

    return access


def _cut_off(ceph: CephFS, storage: SharedStorage, user: str, folder: Path) -> dict[str, float]:
    """Remove a user whose clients run; return the seconds until each was refused."""
    namespace = add_user(storage, user, HomeWish(), ceph.home / _KEYS.format(user)).namespace
    ceph.mount(folder, client=user, subdir=storage.layout.home(user))
    objects = _object_access(ceph, user, namespace)
    if not objects():
        raise RuntimeError(f"{user} writes no object")
    clients = {"mount": _Accesses(_file_access(folder)), "objects": _Accesses(objects)}
    for client in clients.values():
        client.start()
    begin = time.monotonic()
    found = {"rm": _seconds(lambda: remove_user(storage, user))[0]}
    for name, client in clients.items():
        client.join()
        found[name] = round(client.refused - begin, 2)
    ceph.unmount(folder)
    return found


def main() -> None:
    """Print least, largest and median of each step as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--users", type=int, default=20)
    asked = parser.parse_args()
    mount = Path(os.environ["TEST_CEPHFS_PATH"])
    ceph = CephFS(mount.parents[1])
    storage = open_shared_storage(
        CephProgram(ceph.home / "ceph.conf"), mount, f"dc-{uuid.uuid4().hex[:8]}"
    )
    names = [f"user-{uuid.uuid4().hex[:8]}" for _ in range(asked.users)]
    cut = [f"cut-{uuid.uuid4().hex[:8]}" for _ in range(asked.rounds)]
    keyrings = {name: ceph.home / _KEYS.format(name) for name in (*names, *cut)}
    adds = [
        _seconds(lambda name=name: add_user(storage, name, HomeWish(1 << 30), keyrings[name]))
        for name in names
    ]
    again = [_seconds(lambda name=name: add_user(storage, name, HomeWish())) for name in names[:5]]
    lists = [_seconds(lambda: list_users(storage)) for _ in range(asked.rounds)]
    ends = [_cut_off(ceph, storage, name, ceph.home / f"mnt-{name}") for name in cut]
    removals = [
        _seconds(lambda name=name: remove_user(storage, name, remove_home=True)) for name in names
    ]
    for name in (*names, *cut):
        keyrings[name].unlink()
    shutil.rmtree(storage.folder(f"/pfs/{storage.layout.datacenter}"))
    steps = {"add": adds, "add again": again, f"ls of {asked.users}": lists, "rm": removals}
    report = {
        name: dict(
            zip(("seconds", "processor"), map(_spread, zip(*costs, strict=True)), strict=True)
        )
        for name, costs in steps.items()
    }
    delays = {f"cut off: {key}": _spread([each[key] for each in ends]) for key in ends[0]}
    print(json.dumps({**report, **delays}, indent=2))


def _spread(numbers: Sequence[float]) -> str:
    return f"{min(numbers)} to {max(numbers)}, median {statistics.median(numbers)}"


if __name__ == "__main__":
    main()
