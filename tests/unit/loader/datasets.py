"""Datasets for worker processes, which import this module and no test tools."""

import os
import signal
import threading
from dataclasses import dataclass

import numpy as np

from trainfeed.loader.files import ShardFiles


class Squares:
    """Numbers and their squares."""

    def __init__(self, num_samples):
        self.num_samples = num_samples

    def __len__(self):
        return self.num_samples

    def __getitem__(self, i):
        return {"label": i, "square": np.full((3,), i * i)}


class Offset(Squares):
    """Labels that say which set they come from."""

    def __init__(self, num_samples, offset):
        super().__init__(num_samples)
        self.offset = offset

    def __getitem__(self, i):
        return super().__getitem__(i) | {"label": i + self.offset}


class Slow(Squares):
    """Never gives a sample."""

    def __getitem__(self, i):
        signal.pause()


class Sleepy(Squares):
    """Takes a hundredth of a second for a sample."""

    def __getitem__(self, i):
        threading.Event().wait(0.01)
        return super().__getitem__(i)


class Stuck(Squares):
    """Gives no sample from one number on until it is told to."""

    def __init__(self, num_samples, at):
        super().__init__(num_samples)
        self.at = at
        self.go_on = threading.Event()
        self.reached = threading.Event()

    def __getitem__(self, i):
        if i >= self.at:
            self.reached.set()
            self.go_on.wait()
        return super().__getitem__(i)


class Pairs(Squares):
    """Structures of two numbers."""

    def __getitem__(self, i):
        return {"pair": np.array((i, i / 2), [("a", "i4"), ("b", ">f8")])}


@dataclass
class Chosen:
    """Samples that a test has made."""

    samples: list

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


class Growing:
    """Samples that do not fit the slots, and some that do."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return {"label": i, "data": b"x" * (i * 1000), "block": np.full(5000, i)}


class OddError(Exception):
    """Cannot be sent to another process."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two, lambda: None


def _raise(error):
    raise error


ACTIONS = {
    "raise": lambda: _raise(ValueError("sample is bad")),
    "odd": lambda: _raise(OddError("odd one", 2)),
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segv": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "bus": lambda: os.kill(os.getpid(), signal.SIGBUS),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


@dataclass
class Failing:
    """Does something bad at one sample."""

    action: str = "raise"
    at: int = 150
    num_samples: int = 200

    def __len__(self):
        return self.num_samples

    def __getitem__(self, i):
        if i == self.at:
            ACTIONS[self.action]()
        return {"label": i}


class Rereading(ShardFiles):
    """Files of which every read was repeated once."""

    def read(self, shard, offset_bytes, out):
        self.num_retries += 1
        super().read(shard, offset_bytes, out)


def record_of(i):
    """Return a record of 1 KiB that says its number."""
    return i.to_bytes(4, "little") * 256
