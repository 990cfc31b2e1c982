"""An interval of very many small files: what plan and build take, and where HDFS is asked.

``python -m benchmarks.scale.many_files local FOLDER`` makes 100,000 files of three lines in
``FOLDER``, and prints a row for each step, with the largest process of it: ``find`` looks at the
folder, with what shows that its files are complete; ``plan`` does that and writes the plan;
``build`` makes the version from the plan; ``verify`` reads all of it; ``load`` gives every sample.

    python -m services run --require hdfs -- python -m benchmarks.scale.many_files hdfs FOLDER

does it with files in HDFS, by the NameNode's own protocol, and says how often the NameNode was
asked. With ``--web`` the files are read by WebHDFS, which has checksums. ``--steps find,plan``
leaves the others out, ``--files N`` makes another number of files; ``--keep`` leaves the files for
the next run, which then makes none.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import hdfs_native

import trainfeed
from benchmarks.pipeline.run import Watch
from trainfeed.core.config import Environment
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.logs import find_interval_logs
from trainfeed.pipeline.local import build
from trainfeed.pipeline.plan import plan
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

ROOT: Final = Path(__file__).parents[2]
DAY: Final = "2024-03-01"
LINES: Final = 3
STEPS: Final = ("find", "plan", "build", "verify", "load")
MIB: Final = 1 << 20
SPEC: Final = """
name: small
schedule: "@daily"
start: 2024-03-01
end: 2024-03-31
source:
  logs:
    {path: "/logs/small/dt={start:%Y-%m-%d}", done: _SUCCESS, bytes_per_record: 16, wait: 36500d}
preprocess: {function: "preprocess:make"}
schema:
  value: {dtype: int64}
split: {train: 0.9, eval: 0.1}
"""
CODE: Final = """
def make(record, lookups):
    return {"value": record.json()["value"]}
"""
_POLL_S: Final = 0.05
# A client of HDFS waits 400 ms if it closes a file before its DataNode has reported the block.
_AT_ONCE: Final = {"local": 4, "hdfs": 40}
_PER_CALL: Final = 50
_TRIES: Final = 10
_RETRY_S: Final = 2.0
# The NameNode brings its counts up to date after so many seconds.
_COUNTS_S: Final = 11.0


@dataclass(frozen=True)
class Store:
    """Where the files are.

    Attributes:
        uri: What the connection of the data set names.
        made_by: The same place, by the protocol with which the files are made.
        namenode: ``host:port`` of the NameNode's HTTP server; empty without one.
    """

    uri: str
    made_by: str
    namenode: str = ""

    @property
    def folder(self) -> Location:
        return Location.parse(self.made_by) / f"logs/small/dt={DAY}"

    def asked(self) -> dict[str, int]:
        """Return operation → how often the NameNode was asked for it, by any protocol."""
        if not self.namenode:
            return {}
        # WebHDFS calls methods of the NameNode without the server of the native protocol.
        time.sleep(_COUNTS_S)
        counts: dict[str, int] = {}
        for bean in ("RpcDetailedActivity*", "NameNodeActivity"):
            server = HTTPConnection(self.namenode, timeout=60)
            server.request("GET", f"/jmx?qry=Hadoop:service=NameNode,name={bean}")
            for found in json.load(server.getresponse())["beans"]:
                counts |= {
                    name: value
                    for name, value in found.items()
                    if name.endswith("Ops") and isinstance(value, int)
                }
            server.close()
        return counts


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", choices=["local", "hdfs"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--web", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--step", default="")
    options = parser.parse_args()
    store = _store(options.where, options.folder, web=options.web)
    if options.step:
        print(json.dumps(_RUN[options.step](_environment(options.folder, store))))
        return
    _lay_out(options.folder)
    _make(store, options.files)
    print("| step | wall s | CPU s | largest process MiB | all MiB | what |")
    print("| --- | --- | --- | --- | --- | --- |")
    again = [sys.executable, "-m", "benchmarks.scale.many_files", options.where, options.folder]
    again += ["--web"] if options.web else []
    try:
        for step in options.steps.split(","):
            _watched([*map(str, again), "--step", step], step, store)
    finally:
        if not options.keep:
            store.folder.delete(recursive=True)
            shutil.rmtree(options.folder)


def _store(where: str, folder: Path, *, web: bool) -> Store:
    if where == "local":
        return Store(str(folder / "store"), str(folder / "store"))
    native, by_http = (os.environ[f"TEST_{kind}_URI"] for kind in ("HDFS", "WEBHDFS"))
    place = "/benchmark-small"
    return Store((by_http if web else native) + place, native + place, by_http.rpartition("@")[2])


def _environment(folder: Path, store: Store) -> Environment:
    places = {name: str(folder / name) for name in ("root", "landing", "work")}
    logs = {"hdfs_default": store.uri}
    return Environment(**places, kafka={}, datasets=folder / "datasets", logs=logs)


def _lay_out(folder: Path) -> None:
    """Make the data set, and forget what an earlier run has built."""
    for name in ("datasets", "root", "landing", "work"):
        shutil.rmtree(folder / name, ignore_errors=True)
    place = folder / "datasets" / "small"
    place.mkdir(parents=True)
    (place / "dataset.yaml").write_text(SPEC)
    (place / "preprocess.py").write_text(CODE)
    init_root(folder / "root")


def _make(store: Store, count: int) -> None:
    """Make the files, unless an earlier run has left them."""
    marker = store.folder / "_SUCCESS"
    if marker.exists():
        return
    store.folder.make_dir()
    started = time.perf_counter()
    make = _local_files if not store.namenode else _hdfs_files
    with ThreadPoolExecutor(_AT_ONCE["hdfs" if store.namenode else "local"]) as pool:
        parts = [range(at, min(count, at + _PER_CALL)) for at in range(0, count, _PER_CALL)]
        list(pool.map(lambda part: make(store, part), parts))
    with marker.open_write():
        pass
    print(f"{count:,} files of {LINES} lines made in {time.perf_counter() - started:.0f} s")


def _contents(numbers: range) -> Iterator[tuple[str, bytes]]:
    for number in numbers:
        values = range(number * LINES, number * LINES + LINES)
        lines = b"".join(b'{"value": %d}\n' % value for value in values)
        yield f"part-{number:06d}-0a1b2c3d.jsonl", lines


def _local_files(store: Store, numbers: range) -> None:
    folder = Path(store.folder.path)
    for name, lines in _contents(numbers):
        (folder / name).write_bytes(lines)


def _hdfs_files(store: Store, numbers: range) -> None:
    """Make files by the client alone: ours also makes each durable, and asks for its length."""
    address = store.folder.uri.removesuffix(store.folder.path)
    client = hdfs_native.Client(address)
    options = hdfs_native.WriteOptions(overwrite=True, create_parent=True)
    for name, lines in _contents(numbers):
        for left in reversed(range(_TRIES)):
            try:
                writer = client.create(f"{store.folder.path}/{name}", options)
                writer.write(lines)
                writer.close()
                break
            except RuntimeError:  # the only DataNode is busy, and taken for one that is away
                if not left:
                    raise
                time.sleep(_RETRY_S)


def _watched(command: list[str], step: str, store: Store) -> None:
    """Run a step in a process of its own, and print its row."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"}
    before = store.asked()
    started = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    watch = Watch(process.pid)
    while process.poll() is None:
        watch.look()
        time.sleep(_POLL_S)
    wall = time.perf_counter() - started
    lines = process.stdout.read().strip().splitlines() if process.stdout else []
    said = lines[-1] if lines and not process.returncode else f"failed: {process.returncode}"
    asked = {
        name: count - before.get(name, 0)
        for name, count in store.asked().items()
        if count > before.get(name, 0) and not name.startswith(("Overall", "SendHeartbeat"))
    }
    largest, together = max(watch.peaks.values()) // MIB, watch.rss_bytes // MIB
    what = f"{said} {asked or ''}".strip()
    print(f"| {step} | {wall:.1f} | {watch.cpu_s:.1f} | {largest} | {together} | {what} |")
    sys.stdout.flush()


# --- The steps, each in a process of its own


def _find(env: Environment) -> dict[str, Any]:
    spec = load_spec(env.datasets / "small")
    interval = spec.schedule_model().interval_named(DAY)
    started = time.perf_counter()
    found = find_interval_logs(spec, env, interval, checksums=True)
    return {"files": len(found.files), "seconds": round(time.perf_counter() - started, 2)}


def _plan(env: Environment) -> dict[str, Any]:
    spec = load_spec(env.datasets / "small")
    started = time.perf_counter()
    report = plan(spec, spec.schedule_model().interval_named(DAY), env).to_json()
    return {"verdict": report["verdict"], "seconds": round(time.perf_counter() - started, 2)}


def _build(env: Environment) -> dict[str, Any]:
    spec = load_spec(env.datasets / "small")
    report = build(spec, spec.schedule_model().interval_named(DAY), env).to_json()
    return {"samples": report["samples"], "seconds": report["seconds"]}


def _verify(env: Environment) -> dict[str, Any]:
    version = Version.resolve(DatasetFolder(Path(env.root), "small"), DAY, None)
    started = time.perf_counter()
    version.verify()
    seconds = round(time.perf_counter() - started, 2)
    sizes = {path.name: path.stat().st_size for path in version.path.iterdir() if path.is_file()}
    return {"bytes": sizes, "seconds": seconds}


def _load(env: Environment) -> dict[str, Any]:
    started, count = time.perf_counter(), 0
    for split in ("train", "eval"):
        found = trainfeed.open_dataset("small", interval=DAY, split=split, root=env.root)
        for batch in trainfeed.DataLoader(found, batch_size=1024, shuffle=True, seed=7):
            count += len(batch["value"])
    return {"samples": count, "seconds": round(time.perf_counter() - started, 2)}


_RUN: Final[dict[str, Callable[[Environment], dict[str, Any]]]] = {
    "find": _find,
    "plan": _plan,
    "build": _build,
    "verify": _verify,
    "load": _load,
}


if __name__ == "__main__":
    main()
