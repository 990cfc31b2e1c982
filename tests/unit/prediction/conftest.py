"""The small data set of the build tests, with a published model that doubles the value."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.prediction import ModelPlace, PredictionLimits, RawRecord
from trainfeed.training.models import (
    PROD,
    Candidate,
    ModelData,
    ModelJob,
    ModelsFolder,
    model_version,
    promote,
    register,
)

__all__ = ["project"]

LIMITS = PredictionLimits(time_s=60, memory_bytes=2 << 30)
MODEL = """
train:
  entry: "train:main"
  model:
    name: click_model
    metrics: {score: {min: 0}}
    predict: "train:predictor"
    labels: [label]
    complete: "train:complete"
"""
TRAIN = """
import os
import time
from pathlib import Path

import numpy as np


def main(job):
    return {"score": 1}


def predictor(folder):
    text = (folder / "factor.txt").read_text()
    if text.startswith("sleep "):
        Path(text.removeprefix("sleep ")).write_text(str(os.getpid()))
        time.sleep(3600)
    factor = float(text)

    def predict(columns):
        assert sorted(columns) == ["value"], sorted(columns)
        value = columns["value"]
        if (value == 13).any():
            raise ValueError("unlucky")
        if (value == 99).any():
            time.sleep(3600)
        if (value == 98).any():
            os._exit(7)
        return {"double": value * factor, "process": np.full(len(value), os.getpid())}

    return predict


def complete(value):
    return value
"""


def raw(value, **more):
    return RawRecord(json.dumps({"value": value, **more}).encode())


class Predicting:
    """The data set, and its models."""

    def __init__(self, project):
        self.project = project
        self.root = Path(project.env.root)
        self.folder = ModelsFolder(self.root).model("click_model")

    def make(self, factor="2", number=0, *, prod=True, interval="2024-03-01"):
        """Publish a model with ``factor``; return its number."""
        output = self.root / f"output{number}"
        output.mkdir(exist_ok=True)
        (output / "factor.txt").write_text(factor)
        digest = hashlib.sha256(factor.encode()).hexdigest()
        manifest = self.project.version(interval).manifest
        data = ModelData(
            interval=interval,
            generation=f"g{manifest.generation:04d}",
            content_digest=manifest.content_digest,
            manifest_sha256="0" * 64,
            fingerprint=manifest.fingerprint,
        )
        job = ModelJob(
            dataset="clicks",
            interval=interval,
            name=f"job-{number}",
            identity=f"{number:064x}",
            entry="train:main",
            code=digest_of_texts(training_texts(self.project.env.datasets / "clicks")),
            seed=7,
            ranks=1,
        )
        files = {"factor.txt": (len(factor), digest)}
        model, _ = register(self.folder, Candidate(job, [data], {"score": 1.0}, output, files))
        if prod:
            promote(self.folder, PROD, model.manifest.version, "test")
        return model.manifest.version

    def place(self, number=1, *, accepts=False):
        return ModelPlace(self.root, self.project.env.datasets, "click_model", number, accepts)

    def name(self, number):
        return f"click_model/{model_version(number)}"


@pytest.fixture
def predicting(project):
    return make_predicting(project)


def make_predicting(project):
    """Give the data set a function that predicts, an interval, and a model in use."""
    (project.env.datasets / "clicks" / "train.py").write_text(TRAIN)
    path = project.env.datasets / "clicks" / "dataset.yaml"
    path.write_text(path.read_text() + MODEL)
    project.build()
    made = Predicting(project)
    made.make()
    return made
