"""How fast is a loader that reads a set from afar, through a cache of a quarter of the set?

Question: with 10 ms of latency and a cap of 200 MB/s, what share of the line does a pass in the
order of the set, and a shuffled one, get? What does a second epoch find in the cache? What do
eight ranks that share it fetch together? And what do MosaicML Streaming and LitData?

Method: see ``line``. The ceiling of the line is measured first, by curl over as many connections as
a process of the loader has, and a plain read from start to end over one connection stands beside
it; so does the line without delay and cap. Samples are random bytes, stored as they are, so a byte
of a sample is a byte of the line. Cases take turns for ``--rounds`` rounds, each with an empty
cache at first; the median counts. Bytes are those that the line has counted, for every loader
alike. Peers get a cache of the same bytes, their sets in shards of ``--peer-shards`` MiB, and the
cases of ``PEER_CASES``: their defaults, and what their manuals say of slow stores.

    python -m benchmarks.afar --folder /local/disk/bench [--server s3] [--megabytes 1024]
        [--ranks 8] [--rounds 3] [--peers PYTHON-WITH-PEERS]

It needs gcc, curl, and for ``--server https`` openssl; and a quiet machine: line, server and loader
share its cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from benchmarks.afar.line import (
    BUCKET,
    LINE_PORT,
    Line,
    Server,
    drop,
    https_server,
    line_to,
    s3_server,
)
from trainfeed.files.stores import FileSystem, Location
from trainfeed.files.stores.https import HttpsFiles
from trainfeed.files.stores.s3 import S3FileSystem
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.loader.chunk_samples import ShardSource
from trainfeed.loader.chunks import ShardAccess
from trainfeed.recordio import Codec, RecordIndex, RecordWriter
from trainfeed.remote.shards import CachePlace, RemoteShards
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.versions.chunk_index import ChunkTable

SCHEMA: Final = Schema((Field("image", "uint8", (16_000,)), Field("label", "int64")))
CHUNK_BYTES: Final = 1 << 20
SHARD_BYTES: Final = 64 << 20
CONNECTIONS: Final = 8
OURS: Final = "ours"
UNCAPPED_MB: Final = 1e6
# Name, library, workers, options of the set. By default Streaming shuffles 2^18 samples at once, so
# every batch needs every shard; 4,096 are the 64 MiB that a window of ours has.
BLOCK: Final = {"shuffle_block_size": 4096}
PEER_CASES: Final[tuple[tuple[str, str, int, dict[str, Any]], ...]] = (
    ("litdata, 0 workers", "litdata", 0, {}),
    ("litdata, 2 workers", "litdata", 2, {}),
    ("streaming, 0 workers, 2,048 ahead", "streaming", 0, BLOCK | {"predownload": 2048}),
    ("streaming, 2 workers, 2,048 ahead", "streaming", 2, BLOCK | {"predownload": 2048}),
)
Figures = defaultdict[str, list[float]]


class AfarFiles(RecordFiles):
    """The set as a loader takes it, behind the line; ``shards`` counts what is fetched."""

    def __init__(self, folder: Path, server: str, cache: CachePlace) -> None:
        super().__init__(str(folder / "sets" / OURS / "set-*"), SCHEMA)
        indexes = [RecordIndex.load(path) for path in self.paths]
        chunks = [(number, info) for number, index in enumerate(indexes) for info in index.chunks]
        line: Any = S3FileSystem(BUCKET) if server == "s3" else HttpsFiles(f"localhost:{LINE_PORT}")
        fs = cast("FileSystem", line)
        places = [Location(fs, f"/{OURS}/{Path(path).name}") for path in self.paths]
        parts = [("0" * 32, len(chunks))]
        self.shards = RemoteShards(places, ChunkTable.of(chunks), parts, cache)

    def source(self, **_: Any) -> ShardSource:
        """Return the set at the end of the line."""
        table = self.shards.table
        return ShardSource(self.shards, table, digest="0" * 16, schema=SCHEMA, access=ShardAccess())


# --- Sets: written once, below ``sets``


def write_set(home: Path, num_bytes: int) -> None:
    """Write our set."""
    home.mkdir(parents=True)
    codec, generator = TypedCodec(SCHEMA), np.random.default_rng(7)
    rows = SHARD_BYTES // 16_000
    for number in range(max(1, num_bytes // SHARD_BYTES)):
        path = home / f"set-{number:05d}"
        with RecordWriter(path, codec=Codec.NONE, max_chunk_bytes=CHUNK_BYTES) as writer:
            image = generator.integers(0, 256, (rows, 16_000), np.uint8)
            label = np.arange(rows) + number * rows
            writer.write_array(codec.encode_columns({"image": image, "label": label}))


def write_sets(folder: Path, megabytes: int, peers: str | None, shard_megabytes: int) -> None:
    """Write the sets that are not there."""
    if not (folder / "sets" / OURS).exists():
        write_set(folder / "sets" / OURS, megabytes << 20)
    for name in sorted({case[1] for case in PEER_CASES}) if peers else ():
        home = folder / "sets" / f"{name}-{shard_megabytes}"
        if not home.exists():
            command = [peers, "benchmarks/afar/peers.py", "write", name, home]
            sizes = [str(megabytes), str(shard_megabytes)]
            subprocess.run([*map(str, command), *sizes], check=True)


def upload_sets(folder: Path) -> None:
    """Put the sets into the bucket that are not there."""
    bucket = Location(S3FileSystem(BUCKET), "/")
    for path in sorted((folder / "sets").rglob("*")):
        target = bucket / str(path.relative_to(folder / "sets"))
        if path.is_file() and not target.exists():
            target.write_atomic(lambda file, path=path: file.write(path.read_bytes()))


def files_of(home: Path) -> dict[str, int]:
    """Return name and bytes of the files of a set."""
    found = {str(path.relative_to(home)): path for path in home.rglob("*") if path.is_file()}
    return {name: path.stat().st_size for name, path in found.items()}


# --- Reading


def read(
    dataset: AfarFiles, *, shuffle: bool, epochs: int, rank: int, ranks: int
) -> list[tuple[float, int, int]]:
    """Read epochs; return seconds, rows and fetched bytes of each."""
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
    given: argparse.Namespace, cache: CachePlace, *, shuffle: bool, ranks: int
) -> list[tuple[float, int, int]]:
    """Read epochs in as many processes; return the slowest time and the sums of each epoch."""
    command = [sys.executable, "-m", "benchmarks.afar", "--folder", str(given.folder)]
    command += ["--server", given.server, "--epochs", str(given.epochs), "--ranks", str(ranks)]
    command += ["--cache", str(cache.folder), str(cache.bound_bytes)]
    command += ["--shuffle"] if shuffle else []
    processes = [
        subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    found = [json.loads(process.communicate()[0]) for process in processes]
    return [
        (max(each[0] for each in epoch), sum(e[1] for e in epoch), sum(e[2] for e in epoch))
        for epoch in zip(*found, strict=True)
    ]


def read_ours(given: argparse.Namespace, line: Line, figures: Figures) -> None:
    """Read our set in one process, in order and shuffled, and in ranks."""
    files = files_of(given.folder / "sets" / OURS)
    total = sum(files.values())
    for connections in (1, CONNECTIONS):
        rate = line.fetch_plainly(OURS, files, connections)
        figures[f"curl, {connections} connections: MB/s"].append(rate / 1e6)
    place = CachePlace(given.folder / "cache", total // 4)
    for shuffle, ranks in ((False, 1), (True, 1), (True, given.ranks)):
        drop(place.folder)
        before = line.num_bytes
        name = f"ours, {'shuffled' if shuffle else 'in order'}, {ranks} ranks"
        found = read_in_ranks(given, place, shuffle=shuffle, ranks=ranks)
        add(figures, name, found, total)
        through = (line.num_bytes - before) / total / given.epochs
        figures[f"{name}: of the line an epoch, of the set"].append(through)
    drop(place.folder)


def read_peers(given: argparse.Namespace, line: Line, figures: Figures) -> None:
    """Read the sets of the peers, in order and shuffled."""
    for name, library, workers, more in PEER_CASES:
        if not re.search(given.only, name):
            continue
        home = f"{library}-{given.peer_shards}"
        total = sum(files_of(given.folder / "sets" / home).values())
        for shuffle in (False, True):
            cache = given.folder / "cache-of-peers"
            drop(cache)
            spec = {"shuffle": shuffle, "epochs": given.epochs, "workers": workers, "more": more}
            command = [given.peers, "benchmarks/afar/peers.py", "read", library]
            command += [f"s3://{BUCKET}/{home}", str(cache), str(total // 4), str(line.counter)]
            case = f"{name}, {'shuffled' if shuffle else 'in order'}"
            answer = run_for([*command, json.dumps(spec)], given.patience_s)
            if answer is None:
                print(f"{case}: failed, or not done after {given.patience_s} s", flush=True)
            else:
                add(figures, case, json.loads(answer), total)
            drop(cache)


def run_for(command: list[str], patience_s: float) -> bytes | None:
    """Run a program; return what it said, None if it failed or took longer."""
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        try:
            answer, _ = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            answer = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its workers, too
    return None if process.returncode else answer


def add(figures: Figures, name: str, epochs: list[Any], total: int) -> None:
    """Take the figures of the epochs of a case, and print them."""
    for epoch, (seconds, rows, fetched) in enumerate(epochs):
        case = f"{name}, epoch {epoch}"
        figures[f"{case}: line MB/s"].append(fetched / seconds / 1e6)
        figures[f"{case}: set MB/s"].append(total / seconds / 1e6)
        figures[f"{case}: fetched, of the set"].append(fetched / total)
        found = f"{seconds:6.2f} s, {rows} rows, fetched {fetched / total:.3f}"
        print(f"{case:<60} {found}; load {os.getloadavg()[0]:.1f}", flush=True)


def measure(given: argparse.Namespace, server: Server, figures: Figures) -> None:
    """Measure all cases in turns."""
    files = files_of(given.folder / "sets" / OURS)
    with line_to(server, given.folder, 0.0, UNCAPPED_MB) as line:
        if given.server == "s3":
            upload_sets(given.folder)
        for _ in range(given.rounds):
            rate = line.fetch_plainly(OURS, files, CONNECTIONS)
            figures[f"curl, {CONNECTIONS} connections, no delay, no cap: MB/s"].append(rate / 1e6)
    with line_to(server, given.folder, given.latency_ms, given.cap_mb) as line:
        for _ in range(given.rounds):
            if given.ranks:
                read_ours(given, line, figures)
            if given.peers:
                read_peers(given, line, figures)


def main() -> None:
    """Measure, and print a line for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--server", choices=["s3", "https"], default="s3")
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--latency-ms", type=float, default=10.0)
    parser.add_argument("--cap-mb", type=float, default=200.0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=8, help="0: peers alone")
    parser.add_argument("--peers", help="Python of an environment with requirements/peers.txt")
    parser.add_argument("--only", default="", help="cases of peers whose name matches this")
    parser.add_argument("--peer-shards", type=int, default=16, help="MiB")
    parser.add_argument("--patience-s", type=float, default=120.0, help="for a case of a peer")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cache", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--shuffle", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.folder = given.folder.resolve()
    if given.rank is not None:
        place = CachePlace(Path(given.cache[0]), int(given.cache[1]))
        dataset = AfarFiles(given.folder, given.server, place)
        options = {"shuffle": given.shuffle, "epochs": given.epochs}
        print(json.dumps(read(dataset, rank=given.rank, ranks=given.ranks, **options)))
        return
    if given.peers and given.server != "s3":
        parser.error("peers read from s3")
    given.folder.mkdir(parents=True, exist_ok=True)
    write_sets(given.folder, given.megabytes, given.peers, given.peer_shards)
    figures: Figures = defaultdict(list)
    with (s3_server if given.server == "s3" else https_server)(given.folder) as server:
        measure(given, server, figures)
    for name, values in figures.items():
        print(f"{name:<72} {statistics.median(values):8.3f}   {[round(v, 3) for v in values]}")


if __name__ == "__main__":
    main()
