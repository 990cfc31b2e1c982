"""Counts the functions and files of trainfeed that one record passes, from a source to a batch.

``python -m benchmarks.house.walk [CHECKOUT]``. A new data set with sample records is made, built
for one interval by the command ``build`` and read by a loader, with a profile hook in every
process. A function counts once, and not where it only runs because a module is imported; the
command line and the template of a data set do not count. CHECKOUT is a folder with another commit
of trainfeed; without it, this one is measured.

Most of these functions do the same for a build of any size: they read settings, plan, lock, look
for mistakes. So all of it is done again with 16 times the records, in as many tasks. What is called
at least four times as often then works by the record, batch, chunk or shard. A third walk has tasks
of 100 records: what is called more often there, and only there, works by the task.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import ipc

from trainfeed.files.stores import Location
from trainfeed.sources.landing import LANDING_SCHEMA
from trainfeed.sources.recorded import record_topic

HERE: Final = Path(__file__).resolve().parents[2]
NO_PART_OF_THE_WAY: Final = ("cli/", "scaffold/")
INTERVAL: Final = "2026-01-01"

TIMES: Final = 16
GROWTH: Final = 4
SMALL_TASKS: Final = "resources: {records_per_task: 100}"

# What python runs at its start, in every process of the walk: one line for each function when it
# was called 1, 2, 4, 8, … times, written at once, because a worker may end without saying so.
HOOK: Final = '''
import os, subprocess, sys, threading

NAMES = ("PYTHONPATH", "WALK_PACKAGE", "WALK_LOG")
PACKAGE, LOG = os.environ["WALK_PACKAGE"], os.environ["WALK_LOG"]
SEEN, PASSED = {}, set()
OUTPUT = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def watch(frame, event, _):
    code = frame.f_code
    if event != "call" or code in PASSED:
        return
    if not code.co_filename.startswith(PACKAGE) or not code.co_flags & 1:
        PASSED.add(code)  # not ours; or without CO_OPTIMIZED, which bodies of classes lack
        return
    if is_import(frame):
        return
    count = SEEN[code] = SEEN.get(code, 0) + 1
    if count & (count - 1):
        return
    name = code.co_filename[len(PACKAGE):]
    line = f"{os.getpid()}\\t{count}\\t{name}\\t{code.co_qualname}\\t{code.co_firstlineno}\\n"
    os.write(OUTPUT, line.encode())


def is_import(frame):
    while frame is not None:
        if frame.f_code.co_name == "_call_with_frames_removed":
            return True
        frame = frame.f_back
    return False


def start(popen, *arguments, env=None, **options):
    """Hand the hook to processes that begin with an environment of their own."""
    if env is not None:
        env = {**env, **{name: os.environ[name] for name in NAMES}}
    begin(popen, *arguments, env=env, **options)


begin, subprocess.Popen.__init__ = subprocess.Popen.__init__, start
sys.setprofile(watch)
threading.setprofile(watch)
'''

READ: Final = """
import sys
import trainfeed

loader = trainfeed.DataLoader(
    trainfeed.open_dataset("walked", interval=sys.argv[1], split="train", root="data/root"),
    batch_size=64, shuffle=True, seed=7, rank=0, world_size=1,
)
for batch in loader:
    pass
print({name: array.shape for name, array in batch.items()})
"""


def main() -> None:
    """Walk twice and print the files, the rooms and the sums."""
    checkout = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE
    with tempfile.TemporaryDirectory() as temporary:
        once = walk(checkout, Path(temporary) / "once")
        often = walk(checkout, Path(temporary) / "often", TIMES)
        tasks = walk(checkout, Path(temporary) / "tasks", TIMES, SMALL_TASKS)
    functions: dict[str, Counter[str]] = defaultdict(Counter)
    for name in once:
        path = name[0]
        functions[path]["all"] += 1
        functions[path]["records"] += often.get(name, 0) >= GROWTH * once[name]
        functions[path]["tasks"] += tasks.get(name, 0) >= GROWTH * once[name]
    print("functions, more often with more records, with more tasks, file")
    for path, count in sorted(functions.items()):
        print(f"{count['all']:>4} {count['records']:>4} {count['tasks']:>4}  {path}")
    rooms = Counter(path.partition("/")[0] for path in functions)
    print(", ".join(f"{room} {count}" for room, count in sorted(rooms.items())))
    for what in ("records", "tasks"):
        files = sum(count[what] > 0 for count in functions.values())
        number = sum(count[what] for count in functions.values())
        print(f"{number} functions in {files} files run more often with more {what}")
    print(f"{len(once)} functions in {len(functions)} files of {len(rooms)} rooms")


def walk(
    checkout: Path, folder: Path, times: int = 1, resources: str = ""
) -> dict[tuple[str, str], int]:
    """Return (file, function) → how often it was called, at least, for ``times`` as many records.

    A count is a sum of powers of two, one for each process.
    """
    (folder / "hook").mkdir(parents=True)
    (folder / "hook" / "sitecustomize.py").write_text(HOOK)
    project = folder / "project"
    project.mkdir()
    log = folder / "log"
    package = checkout / "include" / "trainfeed"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            map(str, (folder / "hook", checkout / "include", checkout)),
        ),
        "WALK_PACKAGE": f"{package}/",
        "WALK_LOG": str(log),
    }

    def python(*arguments: str) -> None:
        command = [sys.executable, *arguments]
        subprocess.run(command, cwd=project, env=environment, check=True, stdout=sys.stderr)

    python("-m", "trainfeed", "init", "data/root")
    python("-m", "trainfeed", "new", "walked")
    multiply(project / "include" / "datasets" / "walked", times, resources)
    log.unlink()
    python("-m", "trainfeed", "build", "walked", "--interval", INTERVAL)
    python("-c", READ, INTERVAL)
    called: dict[tuple[str, str, str], int] = {}
    for line in log.read_text().splitlines():
        process, count, path, name, number = line.split("\t")
        if not path.startswith(NO_PART_OF_THE_WAY):
            called[process, path, f"{name}:{number}"] = int(count)
    counts: dict[tuple[str, str], int] = Counter()
    for (_, path, name), count in called.items():
        counts[path, name] += count
    return counts


def multiply(dataset: Path, times: int, resources: str) -> None:
    """Repeat each record of the recorded topic of a new data set; shards are small."""
    topic = dataset / "sample"
    about = json.loads((topic / "TOPIC.json").read_text())
    partitions = {
        number: repeated(topic / f"p={number}", times) for number in range(len(about["partitions"]))
    }
    shutil.rmtree(topic)
    place = Location.parse(str(topic))
    record_topic(place, about["topic"], about["uuid"], partitions, rows_per_file=10**6)
    spec = dataset / "dataset.yaml"
    small = spec.read_text().replace("samples_per_shard: 100000", "samples_per_shard: 100")
    spec.write_text(f"{small}\n{resources}\n")


def repeated(folder: Path, times: int) -> list[pa.RecordBatch]:
    """Return the records of a partition, each several times, with offsets from 0."""
    [path] = folder.iterdir()
    with ipc.open_file(path) as file:
        table = file.read_all()
    table = table.take([row for row in range(len(table)) for _ in range(times)])
    at = table.schema.get_field_index("offset")
    offsets = pa.array(range(len(table)), table.schema.field(at).type)
    table = table.set_column(at, table.schema.field(at), offsets)
    return [pa.RecordBatch.from_arrays([c.combine_chunks() for c in table.columns], LANDING_SCHEMA)]


if __name__ == "__main__":
    main()
