"""Counts the functions and files of trainfeed that one record passes, from a source to a batch.

``python -m benchmarks.house.walk [CHECKOUT]``. A new data set with sample records is made, built
for one interval by the command ``build`` and read by a loader up to the first batch of 64, with a
profile hook in every process. A function counts once, and not where it only runs because a
module is imported; the command line and the template of a data set do not count. CHECKOUT is a
folder with another commit of trainfeed; without it, this one is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parents[2]
NO_PART_OF_THE_WAY: Final = ("cli/", "scaffold/")
INTERVAL: Final = "2026-01-01"

# What python runs at its start, in every process of the walk: one line for each function when it
# is first called, written at once, because a worker may end without saying so.
HOOK: Final = '''
import os, subprocess, sys, threading

NAMES = ("PYTHONPATH", "WALK_PACKAGE", "WALK_LOG")
PACKAGE, LOG = os.environ["WALK_PACKAGE"], os.environ["WALK_LOG"]
SEEN = set()
OUTPUT = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def watch(frame, event, _):
    code = frame.f_code
    if event != "call" or code in SEEN or not code.co_filename.startswith(PACKAGE):
        return
    if not code.co_flags & 1 or is_import(frame):  # 1: CO_OPTIMIZED, which bodies of classes lack
        return
    SEEN.add(code)
    name = f"{code.co_filename[len(PACKAGE):]}\\t{code.co_qualname}\\t{code.co_firstlineno}\\n"
    os.write(OUTPUT, name.encode())


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
batch = next(iter(loader))
print({name: array.shape for name, array in batch.items()})
"""


def main() -> None:
    """Walk once and print the files, the rooms and the sums."""
    checkout = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE
    with tempfile.TemporaryDirectory() as temporary:
        passed = walk(checkout, Path(temporary))
    per_file: dict[str, int] = Counter(path for path, _ in passed)
    rooms: dict[str, int] = defaultdict(int)
    for path, count in sorted(per_file.items()):
        rooms[path.partition("/")[0]] += 1
        print(f"{count:>4}  {path}")
    print(", ".join(f"{room} {count}" for room, count in sorted(rooms.items())))
    print(f"{len(passed)} functions in {len(per_file)} files of {len(rooms)} rooms")


def walk(checkout: Path, folder: Path) -> set[tuple[str, str]]:
    """Return (file, function) for all that a record passes."""
    (folder / "hook").mkdir()
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
    log.unlink()
    python("-m", "trainfeed", "build", "walked", "--interval", INTERVAL)
    python("-c", READ, INTERVAL)
    lines = (line.split("\t") for line in log.read_text().splitlines())
    return {
        (path, f"{name}:{line}")
        for path, name, line in lines
        if not path.startswith(NO_PART_OF_THE_WAY)
    }


if __name__ == "__main__":
    main()
