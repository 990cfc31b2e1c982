"""A job over a data set in memory, for what a context does with it."""

from pathlib import Path
from typing import ClassVar

import numpy as np

from trainfeed.training import TrainingJob
from trainfeed.training.jobs import JobRoots, JobSpec

NUM_POINTS = 50


class Points:
    """Numbers from 0 on, as a map-style data set."""

    content_digest = "points"

    def __init__(self, count=NUM_POINTS):
        self.num_samples = count

    def __len__(self):
        return self.num_samples

    def __getitem__(self, i):
        return {"x": np.int64(i)}


class Rows:
    """Columns in memory, as a data set of the loader and as what a job opens.

    Args:
        columns: Field → array of shape ``(n, *S)``.
        split: Its name.
        version: What messages call it.
        schema: That of the samples, if anything asks for it.
    """

    def __init__(self, columns, split="train", *, version="2013-01-01/g0001", schema=None):
        self.columns, self.split, self.version, self.schema = columns, split, version, schema

    @property
    def num_samples(self):
        return len(self.columns["label"])

    def __len__(self):
        return self.num_samples

    def __getitem__(self, i):
        return {name: column[i] for name, column in self.columns.items()}

    def iter_arrays(self):
        for rows in np.array_split(np.arange(self.num_samples), 2):
            yield {name: column[rows] for name, column in self.columns.items()}


class RowsJob(TrainingJob):
    """A job that reads columns in the place of published versions."""

    splits: ClassVar[dict[str, Rows]] = {}

    def open(self, split):
        return self.splits[split]


class PointsJob(TrainingJob):
    """A job that reads points in the place of published versions."""

    def open(self, split):
        return Points(NUM_POINTS if split == "train" else 10)


def spec(**fields):
    """A job; its fields decide its identity."""
    known = {
        "dataset": "points",
        "interval": "2026-01-01",
        "folder": ".",
        "entry": "train:main",
        "code": "0" * 64,
        "seed": 7,
        "ranks": 1,
        "versions": [],
    }
    return JobSpec.named(**(known | fields))


def job_in(home: Path, rank=0, *, kind=PointsJob, **fields):
    """Return the context of a new process of a job."""
    output = home / "output"
    output.mkdir(parents=True, exist_ok=True)
    job = spec(**fields)
    return kind(job, rank, job.ranks, output, JobRoots(None, None))


def job_over(home: Path, splits, **fields):
    """Return the context of a new process of a job that reads columns."""
    kind = type("Job", (RowsJob,), {"splits": splits})
    return job_in(home, kind=kind, **fields)


def writer(value):
    """Return what writes a model."""
    return lambda folder: np.savez(folder / "model.npz", value=value)


def model_of(checkpoint):
    with np.load(checkpoint.path / "model.npz", allow_pickle=False) as model:
        return int(model["value"])
