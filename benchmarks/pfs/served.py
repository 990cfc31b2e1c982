"""Copies through the file server beside curl and nginx, in turns, on the folder of a mount.

``python -m services run cephfs -- python -m benchmarks.pfs.served`` prints one line per copy, and
the medians with their ratios, and the processor time of each side in seconds per GiB or per 1,000
files. Both sides write their local files to ``--local``; a copy of ours is verified, that of curl
is not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.pfs.nginx import nginx_program, running_nginx
from benchmarks.pfs.processor_time import ProcessorTime
from trainfeed.core.datacenters import PfsPath
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place
from trainfeed.serving.pfs.posix import LocalTree
from trainfeed.serving.pfs.remote import ServerTree
from trainfeed.serving.server import Access, Client, new_token

_MIB = 1 << 20
_SERVE = """
import sys
from pathlib import Path
from trainfeed.serving.pfs.file_server import FileServerSettings, serve_files
from trainfeed.serving.server import ServerSettings
folder, mount = map(Path, sys.argv[1:])
serve_files(FileServerSettings(ServerSettings(
    token_file=folder / "tokens.txt", certificate=folder / "cert.pem", key=folder / "key.pem",
    port_file=folder / "port", audit_log=folder / "audit.jsonl"), "dc", mount, is_local=True))
"""


class Ground:
    """The folders of a run, removed at its end; our server and nginx over the same home."""

    def __init__(self, mount: Path, local: Path, num_bytes: int) -> None:
        self.mount = mount / "pfs-bench"
        self.local = local / "pfs-bench"
        for folder in (self.mount / "home/alice", self.mount / "public", self.local):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.home = self.mount / "home/alice"
        self.num_bytes = num_bytes
        _make_certificate(self.local)
        token = new_token(self.local / "tokens.txt", "alice", scopes="pfs")
        (self.local / "token").touch(0o600)
        (self.local / "token").write_text(token)

    def remove(self) -> None:
        """Remove the folders."""
        shutil.rmtree(self.mount)
        shutil.rmtree(self.local)

    def timed(self, call: Callable[[], None], server: int, per: float) -> tuple[float, str]:
        """Return the seconds of a call, and its processor time divided by ``per``."""
        before, since = ProcessorTime.now(server, self.mount.parent), time.perf_counter()
        call()
        seconds = time.perf_counter() - since
        used = ProcessorTime.now(server, self.mount.parent).since(before, per)
        return seconds, f"{used}; load {os.getloadavg()[0]:.1f}"

    def tree(self) -> ServerTree:
        """Return the home behind our server."""
        port = (self.local / "port").read_text().strip()
        access = Access(token_file=self.local / "token", ca_file=self.local / "cert.pem")
        root = PfsPath("dc", "home", "alice", ())
        return ServerTree(Client(f"https://localhost:{port}", access), root)

    def local_place(self, name: str) -> Place:
        """Return a place of this machine."""
        return Place(LocalTree(), (self.local / name).parts)


def _make_certificate(folder: Path) -> None:
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    about = ["-subj", "/CN=localhost", "-addext", names, "-days", "2"]
    command = ["openssl", "req", "-x509", *made, *about]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "key.pem").chmod(0o600)


@contextmanager
def our_server(ground: Ground) -> Iterator[int]:
    """Serve the home by our server; yield the number of the process."""
    command = [sys.executable, "-c", _SERVE, ground.local, ground.mount]
    process = subprocess.Popen(command)
    try:
        while not (ground.local / "port").exists():
            if process.poll() is not None:
                raise SystemExit("the server ended before it answered")
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def _nginx(ground: Ground) -> AbstractContextManager[tuple[str, int]]:
    program = nginx_program(Path(".services/nginx").absolute())
    certificate, key = ground.local / "cert.pem", ground.local / "key.pem"
    temporary = ground.mount / "nginx-temporary"
    return running_nginx(program, ground.local / "nginx", ground.home, temporary, certificate, key)


def forget(path: Path) -> None:
    """Write a file back and drop its pages, so that the next read asks the storage."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def copy(source: Place, target: Place, threads: int) -> None:
    """Copy by our client, which compares what it has sent or fetched."""
    options = CopyOptions(is_recursive=True, threads=threads)
    for outcome in copy_places([source], target, options):
        if outcome.verdict != "copied":
            raise SystemExit(f"expected a copy, got {outcome}")


def _curl(ground: Ground, *words: str | Path) -> None:
    command = ["curl", "-sS", "--fail", "--cacert", ground.local / "cert.pem", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _ways(ground: Ground, nginx: str, threads: int) -> dict[str, Callable[[], None]]:
    def nginx_down() -> None:
        forget(ground.home / "big")
        _curl(ground, f"{nginx}/big", "-o", ground.local / "down-nginx")

    def our_down() -> None:
        forget(ground.home / "big")
        copy(Place(ground.tree(), ("big",)), ground.local_place("down-ours"), threads)

    def nginx_up() -> None:
        _curl(ground, "-T", ground.local / "big", f"{nginx}/up-nginx")

    def our_up() -> None:
        copy(ground.local_place("big"), Place(ground.tree(), ("up-ours",)), threads)

    return {
        "down nginx": nginx_down,
        "down ours": our_down,
        "up nginx": nginx_up,
        "up ours": our_up,
    }


def _large(ground: Ground, nginx: tuple[str, int], ours: int, rounds: int, threads: int) -> None:
    block = os.urandom(4 * _MIB)
    with (ground.local / "big").open("wb") as file:
        for number in range(ground.num_bytes // len(block)):
            file.write(number.to_bytes(8, "little") + block[8:])
    shutil.copyfile(ground.local / "big", ground.home / "big")
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, way in _ways(ground, nginx[0], threads).items():
            server = nginx[1] if name.endswith("nginx") else ours
            seconds, used = ground.timed(way, server, ground.num_bytes / _MIB / 1024)
            rates[name].append(ground.num_bytes / _MIB / seconds)
            print(f"{name:12} {rates[name][-1]:7.0f} MiB/s; s/GiB: {used}", flush=True)
            for made in (ground.home / "up-nginx", ground.home / "up-ours"):
                made.unlink(missing_ok=True)
            for made in ground.local.glob("down-*"):
                made.unlink()
    for way in ("down", "up"):
        own, theirs = median(rates[f"{way} ours"]), median(rates[f"{way} nginx"])
        pair = (rates[f"{way} ours"], rates[f"{way} nginx"])
        spread = ", ".join(f"{min(each):.0f}-{max(each):.0f}" for each in pair)
        print(f"{way}: ours {own:.0f}, nginx {theirs:.0f} MiB/s ({spread}): {own / theirs:.2f}")


def _small(ground: Ground, ours: int, number: int, rounds: int, threads: int) -> None:
    folder = ground.local / "small"
    for place in range(number):
        (folder / f"{place % 100:02}").mkdir(parents=True, exist_ok=True)
        (folder / f"{place % 100:02}" / f"{place:05}").write_bytes(os.urandom(4096))
    rates: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds):
        back = ground.local_place(f"back-{turn}")
        for name, source, target in (
            ("up", ground.local_place("small"), Place(ground.tree(), (f"small-{turn}",))),
            ("down", Place(ground.tree(), (f"small-{turn}",)), back),
        ):
            go = partial(copy, source, target, threads)
            seconds, used = ground.timed(go, ours, number / 1000)
            rates[name].append(number / seconds)
            print(f"small {name:5} {rates[name][-1]:7.0f} files/s; s/1,000: {used}", flush=True)
        shutil.rmtree(ground.local / f"back-{turn}")
        shutil.rmtree(ground.home / f"small-{turn}")
    for name, found in rates.items():
        print(f"small {name}: {median(found):.0f} files/s ({min(found):.0f}-{max(found):.0f})")


def main() -> None:
    """Run the comparison."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--mount", type=Path, default=os.environ.get("TEST_CEPHFS_PATH"))
    options.add_argument("--local", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--mebibytes", type=int, default=1024)
    options.add_argument("--files", type=int, default=10_000)
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    ground = Ground(Path(given.mount), given.local, given.mebibytes * _MIB)
    try:
        with our_server(ground) as ours:
            if given.mebibytes:
                with _nginx(ground) as nginx:
                    _large(ground, nginx, ours, given.rounds, given.threads)
            if given.files:
                _small(ground, ours, given.files, given.rounds, given.threads)
    finally:
        ground.remove()


if __name__ == "__main__":
    main()
