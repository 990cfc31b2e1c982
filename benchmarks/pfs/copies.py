"""Copies of one large file and of many small ones on a mount, in turns with ``cp`` and others.

::

    python -m services run cephfs -- sh -c 'python -m benchmarks.pfs.copies $TEST_CEPHFS_PATH'

Each round makes every copy once and removes it again; the table has medians and ranges. The time of
``pfs cp`` is that of the copy; the start of the interpreter is measured apart.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from trainfeed.core.datacenters import PfsPath
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place
from trainfeed.serving.pfs.posix import LocalTree, MountedTree

_MIB = 1 << 20
_HOME = PfsPath("dc1", "home", "bench", ())


def main() -> None:
    """Run all rounds, and print one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mount", type=Path)
    parser.add_argument("--local", type=Path, default=Path("/dev/shm"))  # noqa: S108
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("large", "small"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.local) as folder:
        bench = _Bench(given.mount, Path(folder))
        if given.only != "small":
            bench.large(given.mib, given.rounds)
        if given.only != "large":
            bench.small(given.files, given.rounds)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "trainfeed", "--version"], check=True)
    print(f"start of the command: {time.perf_counter() - begin:.1f} s")


class _Bench:
    """Copies between a mount and a folder of this machine."""

    def __init__(self, mount: Path, local: Path) -> None:
        self.mount, self.local = mount, local
        self.tree, self.here = MountedTree(mount, _HOME), LocalTree(local)

    def large(self, mib: int, rounds: int) -> None:
        """Measure copies of one file, verified on both sides."""
        with (self.local / "file").open("wb") as file:
            for _ in range(mib):
                file.write(os.urandom(_MIB))
        up, down = ("file", "mount/up"), ("mount/file", "down")
        ways: dict[str, Callable[[], float]] = {}
        for name, (source, target) in (("up", up), ("down", down)):
            ways[f"{name}: pfs cp"] = self._ours(source, target)
            for tool in ("sha256sum", "openssl dgst -sha256"):
                ways[f"{name}: cp + {tool}"] = self._theirs(source, target, tool)
        shutil.copy(self.local / "file", self.mount / "file")
        _measure(ways, rounds, mib, "MiB/s")
        (self.mount / "file").unlink()

    def small(self, files: int, rounds: int) -> None:
        """Measure copies of a folder with small files."""
        (self.local / "folder").mkdir()
        for number in range(files):
            (self.local / f"folder/{number}").write_bytes(os.urandom(2000 + number % 4000))
        source, target = "folder", "mount/up"
        ways: dict[str, Callable[[], float]] = {
            "small: pfs cp -r": self._ours(source, target),
            "small: cp -r": self._command(
                f"cp -r {self._path(source)} {self._path(target)}", self._path(target)
            ),
        }
        _measure(ways, rounds, files, "files/s")

    def _path(self, name: str) -> Path:
        below = name.removeprefix("mount/")
        return (self.local if below == name else self.mount) / below

    def _ours(self, source: str, target: str) -> Callable[[], float]:
        def place(name: str) -> Place:
            below = name.removeprefix("mount/")
            return Place(self.here if below == name else self.tree, (below,))

        def run() -> None:
            options = CopyOptions(is_recursive=True)
            found = list(copy_places([place(source)], place(target), options))
            if not found or any(each.verdict != "copied" for each in found):
                raise SystemExit(f"expected files to be copied, got {found[-1:]}")

        return _then_removed(run, self._path(target))

    def _theirs(self, source: str, target: str, tool: str) -> Callable[[], float]:
        one, other = self._path(source), self._path(target)
        return self._command(f"cp {one} {other} && {tool} {one} {other}", other)

    def _command(self, line: str, target: Path) -> Callable[[], float]:
        def run() -> None:
            subprocess.run(["/bin/sh", "-c", line], check=True, stdout=subprocess.DEVNULL)

        return _then_removed(run, target)


def _then_removed(run: Callable[[], None], target: Path) -> Callable[[], float]:
    def timed() -> float:
        begin = time.perf_counter()
        run()
        seconds = time.perf_counter() - begin
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()
        return seconds

    return timed


def _measure(ways: dict[str, Callable[[], float]], rounds: int, amount: int, unit: str) -> None:
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        # Each round begins with another way, so none is always first.
        names = [*ways][number % len(ways) :] + [*ways][: number % len(ways)]
        for name in names:
            found[name].append(amount / ways[name]())
            print(f"round {number + 1}: {name}: {found[name][-1]:.0f} {unit}", file=sys.stderr)
    for name, rates in found.items():
        middle = statistics.median(rates)
        print(f"{name:32} {middle:7.0f} {unit} ({min(rates):.0f} to {max(rates):.0f})", flush=True)


if __name__ == "__main__":
    main()
