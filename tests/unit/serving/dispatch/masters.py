"""Masters as processes on the loopback, over versions with many small chunks."""

import multiprocessing
import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainfeed.readers import dispatched, open_dataset
from trainfeed.serving.dispatch import MasterOptions, QueueOptions, TaskList, serve_master
from trainfeed.serving.server import Access, Limits, ServerSettings, new_token


@dataclass
class Place:
    """A root with versions, and the files of a master."""

    root: Path
    path: Path
    asked: str = "2024-03-01"
    chunks_per_task: int = 1
    rules: dict = field(default_factory=dict)
    linger: float = 1.0
    port: int = 0
    root_of_trainers: str | None = None

    def __post_init__(self):
        self.token_file = self.path / "token.txt"
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(
            new_token(self.path / "tokens.txt", "trainer", scopes="train,read,metrics")
        )

    @property
    def access(self):
        return Access(token_file=self.token_file)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def tasks(self):
        return TaskList.of_range(
            "clicks", self.asked, "train", chunks_per_task=self.chunks_per_task, root=self.root
        )

    def expected(self):
        """Every sample of the range, as something that can be counted."""
        whole = open_dataset("clicks", interval=self.asked, split="train", root=self.root)
        return sorted(map(known, whole.reader()()))

    def reader(self, **more):
        root = self.root_of_trainers or self.root
        return dispatched(self.url, root=root, access=self.access, **more)

    def serve(self, port):
        rules = QueueOptions(**self.rules)
        options = MasterOptions(self.path / "state", rules, linger_seconds=self.linger)
        settings = ServerSettings(
            self.path / "tokens.txt",
            port=port,
            port_file=self.path / "port",
            limits=Limits(requests_per_second=1e6, burst=1000000, grace_seconds=1),
        )
        serve_master(self.tasks(), options, settings)

    def start(self):
        """Start a master at the port of the one before; return its process."""
        port_file = self.path / "port"
        port_file.unlink(missing_ok=True)
        process = forked(self.serve, self.port)
        while not port_file.exists():
            assert process.is_alive()
        self.port = int(port_file.read_text())
        return process

    @contextmanager
    def master(self):
        process = self.start()
        try:
            yield process
        finally:
            end(process)


def known(sample):
    return float(sample["value"]), int(sample["label"])


def forked(act, *arguments):
    process = multiprocessing.get_context("fork").Process(target=act, args=arguments)
    process.start()
    return process


def end(process, number=signal.SIGTERM):
    """End a process of this test, and reap it."""
    if process.is_alive():
        os.kill(process.pid, number)
    process.join(60)
