"""One rank of the training, and the launcher of all of them."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from examples.ranks.checkpoint import Checkpoint
from examples.ranks.digest import batch_digest, row_digests
from examples.ranks.exchange import Exchange, RankLostError
from examples.ranks.model import Model
from trainfeed.core import faults
from trainfeed.loader import DataLoader
from trainfeed.readers import open_dataset

__all__ = ["CHECKPOINT_FILE", "CURVE_FILE", "Settings", "train"]

CHECKPOINT_FILE: Final = "checkpoint.npz"
CURVE_FILE: Final = "curve.jsonl"


@dataclass(frozen=True)
class Settings:
    """The data and settings of a training, on which its curve depends, and the output folder.

    Attributes:
        dataset: Name of the data set, with fields ``indices``, ``values`` and ``label``.
        interval: Name of one interval, or ``first/last``.
        output: Folder of the checkpoint and the curve; exists.
        root: The publication root; where the environment says when None.
        split: Name of the split.
        num_buckets: Number of buckets; the data set's ``indices`` are below it.
        num_epochs: Epochs.
        global_batch: Samples per step, over all ranks; a multiple of their number.
        seed: That of the order of the samples.
        checkpoint_every: Steps from one checkpoint to the next.
        num_threads: Threads per rank that load ahead.
    """

    dataset: str
    interval: str
    output: Path
    root: Path | None = None
    split: str = "train"
    num_buckets: int = 1 << 16
    num_epochs: int = 4
    global_batch: int = 128
    seed: int = 7
    checkpoint_every: int = 10
    num_threads: int = 0


class _Curve:
    """The line per step that rank 0 writes; from where it goes on, older lines are cut off."""

    def __init__(self, path: Path, num_steps: int) -> None:
        lines = path.read_text().splitlines(keepends=True)[:num_steps] if num_steps else []
        path.write_text("".join(lines))
        self._file = path.open("a", buffering=1)

    def add(self, **fields: object) -> None:
        self._file.write(json.dumps(fields) + "\n")

    def close(self) -> None:
        self._file.close()


class _Rank:
    """The state of one rank between two steps."""

    def __init__(self, settings: Settings, exchange: Exchange, loader: DataLoader) -> None:
        self._settings, self._exchange, self._loader = settings, exchange, loader
        self._model = Model(settings.num_buckets, *loader.dataset.schema["values"].shape)
        self._step = 0
        if saved := Checkpoint.read(settings.output / CHECKPOINT_FILE):
            self._model.parameters[:] = saved.parameters
            self._step = saved.step
            loader.load_state_dict(saved.loader)
        self._num_steps = settings.num_epochs * len(loader)

    def run(self) -> None:
        """Make all steps that are left."""
        curve = None
        if self._exchange.rank == 0:
            curve = _Curve(self._settings.output / CURVE_FILE, self._step)
        for batch, state in self._batches():
            faults.point(f"rank{self._exchange.rank}.step{self._step}")
            line = self._make_step(batch, state)
            if curve is not None:
                curve.add(**line)
                self._save()
            _end_with_the_launcher()
        if curve is not None:
            curve.close()

    def _batches(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield batches, each with the loader's state before it."""
        state = self._loader.state_dict()
        while state["epoch"] < self._settings.num_epochs:
            for batch in self._loader:
                yield batch, state
                state = self._loader.state_dict()

    def _make_step(self, batch: Any, state: dict[str, Any]) -> dict[str, object]:
        parts = self._exchange.collect(row_digests(batch))
        total = self._exchange.add_up(self._model.gradient(batch))
        num_samples = min(self._settings.global_batch, self._total - state["position"])
        loss = self._model.step(total, num_samples, rate=1 - self._step / self._num_steps)
        line: dict[str, object] = {"step": self._step, "epoch": state["epoch"], "loss": loss}
        if parts:
            line["digest"] = batch_digest(parts, state["position"])
        self._step += 1
        return line

    def _save(self) -> None:
        if self._step % self._settings.checkpoint_every == 0 or self._step == self._num_steps:
            state = Checkpoint(self._step, self._loader.state_dict(), self._model.parameters)
            state.write(self._settings.output / CHECKPOINT_FILE)

    @property
    def _total(self) -> int:
        return int(self._loader.dataset.num_samples)


def train(settings: Settings, num_ranks: int) -> None:
    """Train on several ranks, from the last checkpoint on where there is one.

    Raises:
        ValueError: The ranks cannot share the batch evenly.
        RankLostError: A rank has ended before its time; so have the others then.
    """
    if settings.global_batch % num_ranks:
        raise ValueError(
            f"expected a global batch that {num_ranks} ranks share evenly, got"
            f" {settings.global_batch}"
        )
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(1, num_ranks)]
    ends = [[near for near, _ in pipes], *([far] for _, far in pipes)]
    ranks = [
        context.Process(target=_run, args=(settings, Exchange(rank, num_ranks, own)))
        for rank, own in enumerate(ends)
    ]
    for rank in ranks:
        rank.start()
    for own in ends:
        for pipe in own:
            pipe.close()  # else nobody would notice when the rank at the other end dies
    for rank in ranks:
        rank.join()
    if lost := [f"rank {i}: {rank.exitcode}" for i, rank in enumerate(ranks) if rank.exitcode]:
        raise RankLostError(f"expected all ranks to end with 0, got {', '.join(lost)}")


def _run(settings: Settings, exchange: Exchange) -> None:
    data = open_dataset(
        settings.dataset, interval=settings.interval, split=settings.split, root=settings.root
    )
    loader = DataLoader(
        data,
        settings.global_batch // exchange.world_size,
        shuffle=True,
        seed=settings.seed,
        rank=exchange.rank,
        world_size=exchange.world_size,
        num_threads=settings.num_threads,
    )
    try:
        with loader:
            _Rank(settings, exchange, loader).run()
    except RankLostError as error:
        sys.exit(f"rank {exchange.rank}: {error}")


def _end_with_the_launcher() -> None:
    launcher = multiprocessing.parent_process()
    if launcher is not None and not launcher.is_alive():
        raise RankLostError("the launcher is gone")
