"""Measures the loader beside its peers: one process per system, in turns, in one run.

Question: how many samples per second, of 128 each, reach a training, in batches of arrays? Method:
all data lie in the page cache. Every system starts, imports and opens before it is timed, makes one
pass that does not count, and then one pass per round in turn with the others; a figure is the
median of its rounds. Between its turns a system is stopped, with all its threads and processes:
some systems read ahead as long as they live.

    export PYTHONPATH=include:benchmarks/formats
    .venv-peers/bin/python benchmarks/loader/peers/run.py FOLDER [CASE …]

The peers are in the environment of `make setup-peers`. FOLDER keeps the data sets in the formats
of all systems; they are written when they are not there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import peers
from ours import CASES
from table import aims, all_systems
from write import WRITERS

__all__ = ["main"]

_HERE = Path(__file__).parent
_PEERS = {"A shuffled": peers.A_SHUFFLED, "B shuffled": peers.B_SHUFFLED}
_PACKAGES = (
    "numpy pyarrow isal cramjam array-record datasets tensorflow-cpu mosaicml-streaming webdataset"
    " litdata grain torch vortex-data pylance bagz"
)


class System:
    """A system that is measured, in a process of its own."""

    def __init__(self, folder: Path, case: str, name: str) -> None:
        self.name = name
        self.rates: list[float] = []
        self.cpu_us: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, str(_HERE / "serve.py"), str(folder), case, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def ready(self) -> bool:
        """Wait until it may be measured; False when it cannot run."""
        return self._answer() == "ready"

    def make_pass(self, *, counts: bool) -> bool:
        """Make a pass; False when it has failed. Stopped before and after it."""
        os.killpg(self._process.pid, signal.SIGCONT)
        try:
            return self._make_pass(counts=counts)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGSTOP)

    def _make_pass(self, *, counts: bool) -> bool:
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._answer()
        if not answer:
            return False
        num_samples, seconds, cpu_s = json.loads(answer)
        if counts:
            self.rates.append(num_samples / seconds)
            self.cpu_us.append(cpu_s / num_samples * 1e6)
        return True

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None  # noqa: S101
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGCONT)
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None  # noqa: S101
        return self._process.stdout.readline().strip()


def measure(
    folder: Path, case: str, rounds: int, skipped: list[str]
) -> dict[str, dict[str, list[float]]]:
    """Return system → samples per second, and microseconds of CPU per sample, of each round.

    CPU time is that of the measured process and its threads, not of its child processes.
    """
    with ExitStack() as stack:
        systems = []
        for name in [*CASES[case], *_PEERS.get(case, {})]:
            if any(part in name for part in skipped):
                continue
            system = System(folder, case, name)
            stack.callback(system.stop)
            if system.ready() and system.make_pass(counts=False):
                systems.append(system)
            else:
                print(f"  {name}: does not run", flush=True)
        for _ in range(rounds):
            for system in systems:
                system.make_pass(counts=True)
        return {system.name: {"rates": system.rates, "cpu_us": system.cpu_us} for system in systems}


def main() -> None:
    """Write what is missing, measure, and print tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all when left out")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--skip", action="append", default=[], help="part of a system's name")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Ended by SIGTERM it would leave systems behind that are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for name in WRITERS:
        write = [sys.executable, str(_HERE / "write.py"), str(options.folder), name]
        subprocess.run(write, check=True, stdout=subprocess.DEVNULL)
    print(f"Python {platform.python_version()}, {platform.platform()};", end=" ")
    print(", ".join(f"{name} {version(name)}" for name in _PACKAGES.split()))
    results = {}
    for case in CASES:
        if not options.cases or any(part in case for part in options.cases):
            results[case] = measure(options.folder, case, options.rounds, options.skip)
            print("\n" + all_systems({case: results[case]}), flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    print("\n" + aims(results))


if __name__ == "__main__":
    main()
