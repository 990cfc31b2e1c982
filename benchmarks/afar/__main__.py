"""How fast is a loader that reads a set from afar, through a cache of a quarter of the set?

Question: with 10 ms of latency and a cap of 200 MB/s, what share of the line does a pass in the
order of the set, and a shuffled one, get? What does a second epoch find in the cache? What do
eight ranks that share it fetch together?

Method: nginx gives the files over TLS, ``proxy.c`` is the line: both are programs of their own, not
Python. Its ceiling is measured first, by curl over as many connections as a process of the loader
has, and a plain read from start to end over one connection stands beside it. Samples are random
bytes, stored as they are, so a byte of a sample is a byte of the line. Cases take turns for
``--rounds`` rounds, each with a cache of its own; the median counts.

    python -m benchmarks.afar --folder /local/disk/bench [--megabytes 1024] [--ranks 8] [--rounds 3]

It needs gcc, curl, openssl and nginx, and a quiet machine; line, server and loader share its cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from trainfeed.files.stores import FileSystem, Location
from trainfeed.files.stores.https import HttpsFiles
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.loader.chunk_samples import ShardSource
from trainfeed.loader.chunks import ShardAccess
from trainfeed.recordio import Codec, RecordIndex, RecordWriter
from trainfeed.remote.shards import CachePlace, RemoteShards
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.versions.chunk_index import ChunkTable

SERVER_PORT: Final = 26641
LINE_PORT: Final = 26642
SCHEMA: Final = Schema((Field("image", "uint8", (16_000,)), Field("label", "int64")))
CHUNK_BYTES: Final = 1 << 20
SHARD_BYTES: Final = 64 << 20
CONNECTIONS: Final = 8
HERE: Final = Path(__file__).resolve().parent
NGINX: Final = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 2;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; keepalive_requests 1000000;
  client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
  uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
  server {{
    listen 127.0.0.1:{port} ssl; root {folder}/set;
    ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;
  }}
}}
"""


class AfarFiles(RecordFiles):
    """The set as a loader takes it, behind the line; ``shards`` counts what is fetched."""

    def __init__(self, folder: Path, cache: CachePlace) -> None:
        super().__init__(str(folder / "set" / "set-*"), SCHEMA)
        indexes = [RecordIndex.load(path) for path in self.paths]
        chunks = [(number, info) for number, index in enumerate(indexes) for info in index.chunks]
        line = cast("FileSystem", HttpsFiles(f"localhost:{LINE_PORT}"))
        places = [Location(line, f"/{Path(path).name}") for path in self.paths]
        parts = [("0" * 32, len(chunks))]
        self.shards = RemoteShards(places, ChunkTable.of(chunks), parts, cache)

    def source(self, **_: Any) -> ShardSource:
        """Return the set at the end of the line."""
        table = self.shards.table
        return ShardSource(self.shards, table, digest="0" * 16, schema=SCHEMA, access=ShardAccess())


def write_set(folder: Path, num_bytes: int) -> int:
    """Write the set, unless it is there; return its bytes."""
    home = folder / "set"
    if not home.exists():
        home.mkdir(parents=True)
        codec, generator = TypedCodec(SCHEMA), np.random.default_rng(7)
        rows = SHARD_BYTES // 16_000
        for number in range(max(1, num_bytes // SHARD_BYTES)):
            path = home / f"set-{number:05d}"
            with RecordWriter(path, codec=Codec.NONE, max_chunk_bytes=CHUNK_BYTES) as writer:
                image = generator.integers(0, 256, (rows, 16_000), np.uint8)
                label = np.arange(rows) + number * rows
                writer.write_array(codec.encode_columns({"image": image, "label": label}))
    return sum(path.stat().st_size for path in home.iterdir())


@contextmanager
def running(*command: str) -> Iterator[None]:
    """Run a program, and end it."""
    process = subprocess.Popen(command)
    try:
        time.sleep(0.5)
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended with {process.returncode}")
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def line(folder: Path, latency_ms: float, cap_mb: float) -> Iterator[None]:
    """Start the server, and the line to it."""
    (folder / "tmp").mkdir(exist_ok=True)
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30"
    command += " -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    places = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"]
    subprocess.run([*command.split(), *places], check=True, capture_output=True)
    proxy = str(folder / "proxy")
    compiler = ["gcc", "-O2", "-pthread", "-o", proxy, str(HERE / "proxy.c")]
    subprocess.run(compiler, check=True)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=SERVER_PORT))
    delay_us, rate = int(latency_ms * 500), int(cap_mb * 1e6)
    with ExitStack() as stack:
        stack.enter_context(running("nginx", "-c", f"{folder}/nginx.conf", "-p", str(folder)))
        ports = str(LINE_PORT), str(SERVER_PORT)
        stack.enter_context(running(proxy, *ports, str(delay_us), str(rate)))
        os.environ["TRAINFEED_CA_FILE"] = f"{folder}/certificate.pem"
        yield


def fetch_plainly(folder: Path, connections: int) -> float:
    """Return bytes per second of curl over the whole set, by so many connections at once."""
    names = sorted(path.name for path in (folder / "set").iterdir())
    urls = [f"https://localhost:{LINE_PORT}/{name}" for name in names]
    start_s = time.perf_counter()
    processes = [
        subprocess.Popen(
            ["curl", "-sS", "--fail", "--cacert", f"{folder}/certificate.pem"]
            + [each for url in urls[first::connections] for each in ("-o", "/dev/null", url)]
        )
        for first in range(connections)
        if urls[first::connections]
    ]
    if any(process.wait() for process in processes):
        raise SystemExit("curl failed")
    total = sum(path.stat().st_size for path in (folder / "set").iterdir())
    return total / (time.perf_counter() - start_s)


def read(
    folder: Path, cache: CachePlace, *, shuffle: bool, epochs: int, rank: int, ranks: int
) -> list[tuple[float, int, int]]:
    """Read epochs; return seconds, rows and fetched bytes of each."""
    dataset = AfarFiles(folder, cache)
    found = []
    options = {"shuffle": shuffle, "rank": rank, "world_size": ranks, "epochs": epochs}
    with DataLoader(dataset, batch_size=64, num_threads=2, **options) as loader:
        for _ in range(epochs):
            start_s, before = time.perf_counter(), dataset.shards.num_fetched_bytes
            rows = sum(batch.num_rows for batch in loader)
            seconds = time.perf_counter() - start_s
            found.append((seconds, rows, dataset.shards.num_fetched_bytes - before))
    return found


def read_in_ranks(
    folder: Path, cache: CachePlace, *, shuffle: bool, epochs: int, ranks: int
) -> list[tuple[float, int, int]]:
    """Read epochs in as many processes; return the slowest time and the sums of each epoch."""
    command = [sys.executable, "-m", "benchmarks.afar", "--folder", str(folder)]
    command += ["--cache", str(cache.folder), str(cache.bound_bytes), "--ranks", str(ranks)]
    command += ["--epochs", str(epochs), *(["--shuffle"] if shuffle else [])]
    processes = [
        subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    found = [json.loads(process.communicate()[0]) for process in processes]
    return [
        (max(each[0] for each in epoch), sum(e[1] for e in epoch), sum(e[2] for e in epoch))
        for epoch in zip(*found, strict=True)
    ]


def main() -> None:
    """Measure, and print a line for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--latency-ms", type=float, default=10.0)
    parser.add_argument("--cap-mb", type=float, default=200.0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cache", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--shuffle", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.rank is not None:
        place = CachePlace(Path(given.cache[0]), int(given.cache[1]))
        options = {"shuffle": given.shuffle, "epochs": given.epochs}
        print(json.dumps(read(folder, place, rank=given.rank, ranks=given.ranks, **options)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    total = write_set(folder, given.megabytes << 20)
    place = CachePlace(folder / "cache", total // 4)
    figures: dict[str, list[float]] = {}
    with line(folder, given.latency_ms, given.cap_mb):
        for _ in range(given.rounds):
            for connections in (1, CONNECTIONS):
                rate = fetch_plainly(folder, connections)
                figures.setdefault(f"curl, {connections} connections, MB/s", []).append(rate / 1e6)
            for shuffle, ranks in ((False, 1), (True, 1), (True, given.ranks)):
                shutil.rmtree(place.folder, ignore_errors=True)
                options = {"shuffle": shuffle, "epochs": given.epochs, "ranks": ranks}
                for epoch, each in enumerate(read_in_ranks(folder, place, **options)):
                    name = f"{'shuffled' if shuffle else 'in order'}, {ranks} ranks, epoch {epoch}"
                    seconds, _, fetched = each
                    figures.setdefault(f"{name}: line MB/s", []).append(fetched / seconds / 1e6)
                    figures.setdefault(f"{name}: set MB/s", []).append(total / seconds / 1e6)
                    figures.setdefault(f"{name}: fetched share", []).append(fetched / total)
    for name, values in figures.items():
        print(f"{name:<48} {statistics.median(values):8.3f}   {[round(v, 3) for v in values]}")


if __name__ == "__main__":
    main()
