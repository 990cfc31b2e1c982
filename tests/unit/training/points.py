"""A job over a data set in memory, for what a context does with it."""

import dataclasses
from pathlib import Path

import numpy as np

from trainfeed.jobs import JobRoots, JobSpec
from trainfeed.training import TrainingJob

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


def job_in(home: Path, rank=0, **fields):
    """Return the context of a new process of a job."""
    output = home / "output"
    output.mkdir(parents=True, exist_ok=True)
    job = spec(**fields)
    return PointsJob(job, rank, job.ranks, output, JobRoots(None, None))


def writer(value):
    """Return what writes a model."""
    return lambda folder: np.savez(folder / "model.npz", value=value)


def model_of(checkpoint):
    with np.load(checkpoint.path / "model.npz", allow_pickle=False) as model:
        return int(model["value"])


def changed(job, **fields):
    """Return the context of the same folder for another job."""
    return dataclasses.replace(job, spec=spec(**fields))
