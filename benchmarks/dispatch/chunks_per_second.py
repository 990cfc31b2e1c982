"""How many chunks a second one master lends and takes back, on the loopback.

A master as a process of its own over a task list without data, so that neither disks nor decoding
of shards are measured; its state file is synced before each answer. Trainers are processes that
report what they had and lease the next tasks. ``--state`` names the folder of the state: a disk.

    PYTHONPATH=$PWD:$PWD/include .venv/bin/python benchmarks/dispatch/chunks_per_second.py
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfeed.serving.dispatch import (
    MasterClient,
    MasterOptions,
    QueueOptions,
    Served,
    serve_master,
)
from trainfeed.serving.server import Access, Limits, ServerSettings, new_token

FORK = multiprocessing.get_context("fork")


@dataclass
class Tasks:
    """A task list without data."""

    num_tasks: int
    digest: str = "0" * 64

    def order(self, _: int) -> list[int]:
        """Return the tasks as they are."""
        return list(range(self.num_tasks))

    def served(self, pass_number: int, passes: int | None) -> Served:
        """Return the description for trainers."""
        return Served(
            name="none",
            split="train",
            versions=(),
            manifests=(),
            chunks_per_task=1,
            seed=0,
            digest=self.digest,
            tasks=self.num_tasks,
            pass_number=pass_number,
            passes=passes,
        )


def master(folder: Path, num_tasks: int) -> None:
    """Serve one pass."""
    settings = ServerSettings(
        folder / "tokens.txt",
        port_file=folder / "port",
        audit_log=folder / "audit.jsonl",
        limits=Limits(requests_per_second=1e6, burst=1_000_000),
    )
    options = MasterOptions(folder / "state.sqlite", QueueOptions(passes=1), linger_seconds=0.5)
    tasks: Any = Tasks(num_tasks)
    serve_master(tasks, options, settings)


def trainer(url: str, token_file: Path, per_lease: int, times: Any) -> None:
    """Lease and finish tasks until the pass ends."""
    waits = []
    with MasterClient(url, Access(token_file=token_file)) as client:
        served, answer = client.served(), None
        while answer is None or answer.state != "ended":
            since = time.perf_counter()
            leases = () if answer is None else answer.leases
            answer = client.ask(served, finished=leases, want=per_lease)
            waits.append(time.perf_counter() - since)
    times.put(waits)


def measure(folder: Path, num_tasks: int, trainers: int, per_lease: int) -> None:
    """Run one pass and print its figures."""
    token_file = folder / "token.txt"
    token_file.touch(mode=0o600)
    token_file.write_text(
        new_token(folder / "tokens.txt", f"t{secrets.token_hex(4)}", scopes="train,read")
    )
    server = FORK.Process(target=master, args=(folder, num_tasks))
    server.start()
    while not (folder / "port").exists():
        time.sleep(0.01)
    url = f"http://127.0.0.1:{(folder / 'port').read_text().strip()}"
    times: Any = FORK.Queue()
    arguments = (url, token_file, per_lease, times)
    begin = time.perf_counter()
    workers = [FORK.Process(target=trainer, args=arguments) for _ in range(trainers)]
    for worker in workers:
        worker.start()
    waits = sorted(wait for _ in workers for wait in times.get())
    seconds = time.perf_counter() - begin
    for process in (*workers, server):
        process.join()
    if any(process.exitcode for process in (*workers, server)):
        raise SystemExit("a process failed")
    print(
        f"{trainers:8} {per_lease:9} {num_tasks / seconds:9.0f} {len(waits) / seconds:9.0f}"
        f" {statistics.median(waits) * 1000:8.1f} {waits[int(len(waits) * 0.99)] * 1000:8.1f}"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=8_000)
    parser.add_argument("--state", default="data")
    given = parser.parse_args()
    print("trainers per_lease  chunks/s requests/s  p50 ms   p99 ms")
    for trainers, per_lease in ((1, 1), (1, 16), (4, 1), (4, 4), (4, 16), (4, 64), (8, 64)):
        with tempfile.TemporaryDirectory(dir=given.state) as folder:
            num_tasks = given.tasks * per_lease // 16
            measure(Path(folder), num_tasks, trainers, per_lease)


if __name__ == "__main__":
    main()
