"""The file server beside versitygw, in turns, on the folder of a mount: large and small files.

``python -m services run cephfs -- python -m benchmarks.pfs.objects`` prints one line per copy, and
the medians with their ratios. Both servers have TLS. A large object is
sent and fetched by curl, as from nginx in ``served``; small ones by obstore in ``--threads``
threads over kept connections, one request each. A copy of ours is read back and compared, and
synced before the answer; an object is neither.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import obstore

from benchmarks.pfs.served import Ground, copy, forget, our_server
from services.s3 import S3
from trainfeed.files.stores.s3 import S3FileSystem
from trainfeed.serving.pfs.copy_plan import Place

_MIB: Final = 1 << 20
_PORT: Final = 26643
_BUCKET: Final = "home"
_KEYS: Final = ("benchmark", "benchmark-of-one-machine")


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make the certificate of versitygw: the client in Rust takes none that is an authority."""
    certificate, key = folder / "objects.pem", folder / "objects-key.pem"
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
    about = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    command = ["openssl", "req", "-x509", *made, *about]
    command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@contextmanager
def versitygw(ground: Ground) -> Iterator[int]:
    """Serve a folder of the mount beside the home; yield the number of the process."""
    service = S3(ground.local / "services")
    service.install()
    buckets = ground.mount / "buckets"
    (buckets / _BUCKET).mkdir(parents=True)
    certificate, key = _certificate(ground.local)
    options = ["--port", f"127.0.0.1:{_PORT}", "--health", "/health", "--quiet", "--keep-alive"]
    options += ["--cert", str(certificate), "--key", str(key)]
    keys = dict(zip(("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"), _KEYS, strict=True))
    command = [str(service.program), *options, "posix", str(buckets)]
    process = subprocess.Popen(command, env={**os.environ, **keys})
    os.environ |= {"AWS_ENDPOINT_URL": f"https://localhost:{_PORT}"}
    os.environ |= {"AWS_CA_BUNDLE": str(certificate)}
    os.environ |= dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), _KEYS, strict=True))
    health = ["curl", "-sS", "--fail", "--retry", "30", "--retry-connrefused", "--retry-delay", "1"]
    try:
        subprocess.run(
            [*health, "--cacert", str(certificate), f"https://localhost:{_PORT}/health"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def _curl(ground: Ground, *words: str | Path) -> None:
    config = ground.local / "curl"
    config.touch(0o600)
    lines = [f'user = "{":".join(_KEYS)}"', 'aws-sigv4 = "aws:amz:us-east-1:s3"']
    lines += ['header = "x-amz-content-sha256: UNSIGNED-PAYLOAD"']
    config.write_text("\n".join(lines))
    command = ["curl", "-sS", "--fail", "--cacert", ground.local / "objects.pem", "-K", config]
    subprocess.run([*map(str, command), *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def _large_ways(ground: Ground, threads: int) -> dict[str, Callable[[], None]]:
    address = f"https://localhost:{_PORT}/{_BUCKET}"
    objects = ground.mount / "buckets" / _BUCKET

    def their_down() -> None:
        forget(objects / "big")
        _curl(ground, f"{address}/big", "-o", ground.local / "down-theirs")

    def our_down() -> None:
        forget(ground.home / "big")
        copy(Place(ground.tree(), ("big",)), ground.local_place("down-ours"), threads)

    def their_up() -> None:
        _curl(ground, "-T", ground.local / "big", f"{address}/up-theirs")

    def our_up() -> None:
        copy(ground.local_place("big"), Place(ground.tree(), ("up-ours",)), threads)

    return {
        "down versitygw": their_down,
        "down ours": our_down,
        "up versitygw": their_up,
        "up ours": our_up,
    }


def _clean(ground: Ground) -> None:
    for made in (ground.home / "up-ours", ground.mount / "buckets" / _BUCKET / "up-theirs"):
        made.unlink(missing_ok=True)
    for made in ground.local.glob("down-*"):
        made.unlink()


def _large(ground: Ground, pids: dict[str, int], rounds: int, threads: int) -> None:
    block = os.urandom(4 * _MIB)
    with (ground.local / "big").open("wb") as file:
        for number in range(ground.num_bytes // len(block)):
            file.write(number.to_bytes(8, "little") + block[8:])
    shutil.copyfile(ground.local / "big", ground.home / "big")
    _curl(ground, "-T", ground.local / "big", f"https://localhost:{_PORT}/{_BUCKET}/big")
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, way in _large_ways(ground, threads).items():
            pid = pids[name.rpartition(" ")[2]]
            seconds, used = ground.timed(way, pid, ground.num_bytes / _MIB / 1024)
            rates[name].append(ground.num_bytes / _MIB / seconds)
            print(f"{name:16} {rates[name][-1]:7.0f} MiB/s; s/GiB: {used}", flush=True)
            _clean(ground)
    _tell(rates, ("down", "up"), "MiB/s")


def _small(ground: Ground, pids: dict[str, int], number: int, rounds: int, threads: int) -> None:
    folder = ground.local / "small"
    for place in range(number):
        (folder / f"{place % 100:02}").mkdir(parents=True, exist_ok=True)
        (folder / f"{place % 100:02}" / f"{place:05}").write_bytes(os.urandom(4096))
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    bucket = S3FileSystem(_BUCKET)
    rates: dict[str, list[float]] = defaultdict(list)

    def their_up(turn: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            put = bucket.put
            list(pool.map(lambda n: put(f"/{turn}/{n}", (folder / n).read_bytes()), names))

    def their_down(turn: int) -> None:
        def fetch(name: str) -> None:
            target = ground.local / f"back-{turn}-theirs" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(obstore.get(bucket.client, f"{turn}/{name}").bytes())

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fetch, names))

    def our_up(turn: int) -> None:
        target = Place(ground.tree(), (f"small-{turn}",))
        copy(ground.local_place("small"), target, threads)

    def our_down(turn: int) -> None:
        source = Place(ground.tree(), (f"small-{turn}",))
        copy(source, ground.local_place(f"back-{turn}-ours"), threads)

    ways = {"up versitygw": their_up, "up ours": our_up}
    ways |= {"down versitygw": their_down, "down ours": our_down}
    for turn in range(rounds):
        for name, way in ways.items():
            pid = pids[name.rpartition(" ")[2]]
            seconds, used = ground.timed(lambda way=way, turn=turn: way(turn), pid, number / 1000)
            rates[name].append(number / seconds)
            print(f"small {name:16} {rates[name][-1]:7.0f} files/s; s/1,000: {used}", flush=True)
        for made in (*ground.local.glob("back-*"), *ground.home.glob("small-*")):
            shutil.rmtree(made)
        shutil.rmtree(ground.mount / "buckets" / _BUCKET / str(turn))
    _tell(rates, ("down", "up"), "files/s")


def _tell(rates: dict[str, list[float]], ways: tuple[str, ...], unit: str) -> None:
    for way in ways:
        pair = rates[f"{way} ours"], rates[f"{way} versitygw"]
        own, theirs = map(median, pair)
        spread = ", ".join(f"{min(each):.0f}-{max(each):.0f}" for each in pair)
        print(
            f"{way}: ours {own:.0f}, versitygw {theirs:.0f} {unit} ({spread}): {own / theirs:.2f}"
        )


def main() -> None:
    """Run the comparison."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--mount", type=Path, default=os.environ.get("TEST_CEPHFS_PATH"))
    options.add_argument("--local", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--mebibytes", type=int, default=512)
    options.add_argument("--files", type=int, default=1000)
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    ground = Ground(Path(given.mount), given.local, given.mebibytes * _MIB)
    try:
        with our_server(ground) as ours, versitygw(ground) as theirs:
            pids = {"ours": ours, "versitygw": theirs}
            if given.mebibytes:
                _large(ground, pids, given.rounds, given.threads)
            if given.files:
                _small(ground, pids, given.files, given.rounds, given.threads)
    finally:
        ground.remove()


if __name__ == "__main__":
    main()
