"""A data set with a model, and trainings that make versions of it."""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.training.models import Candidate, ModelJob, ModelsFolder, model_version, register
from trainfeed.upkeep.retention import Context, prune
from trainfeed.upkeep.retention.models import ModelVersions

__all__ = ["project"]

NOW = datetime(2024, 6, 1, tzinfo=UTC)
TRAIN = """
train:
  entry: "train:main"
  model: {name: clicker, metrics: {score: {min: 0}}}
"""


class Clicker:
    """The data set, and its model."""

    def __init__(self, project):
        self.project = project
        (Path(project.env.root) / "clicks").mkdir(exist_ok=True)
        self.folder = ModelsFolder(Path(project.env.root)).model("clicker")

    def candidate(self, number, *, dataset="clicks"):
        """Return what job ``number`` leaves: one file of 100 bytes."""
        output = self.project.path / f"output-{number}"
        output.mkdir(exist_ok=True)
        data = f"{number:0100d}".encode()
        (output / "model.npz").write_bytes(data)
        job = ModelJob(
            dataset=dataset, interval="2024-03-01", name=f"job-{number}", seed=7, ranks=1,
            identity=f"{number:064x}", entry="train:main", code="c" * 64,
        )  # fmt: skip
        files = {"model.npz": (len(data), hashlib.sha256(data).hexdigest())}
        return Candidate(job, [], {"score": float(number)}, output, files)

    def make(self, number, *, age=0, dataset="clicks"):
        """Publish a version ``age`` days before now; return its number."""
        model, _ = register(self.folder, self.candidate(number, dataset=dataset))
        at = (NOW - timedelta(days=age)).timestamp()
        os.utime(model.path / "MANIFEST.json", (at, at))
        return model.manifest.version

    def context(self):
        return Context.of(self.project.spec, self.project.env, now=NOW, who="anna")

    def prune(self, *, dry_run=False):
        return prune(self.context(), (ModelVersions(),), dry_run=dry_run)

    def rule(self, text):
        self.project.edit("seed: 7", f"seed: 7\nretention: {{models: {text}}}")


@pytest.fixture
def clicker(project):
    """Five versions, of 50, 40, 30, 20 and 10 days, and the rule ``keep: 2``."""
    path = project.env.datasets / "clicks" / "dataset.yaml"
    path.write_text(path.read_text() + TRAIN)
    (path.parent / "train.py").write_text("def main(job): ...\n")
    made = Clicker(project)
    made.rule("{keep: 2}")
    for number in range(1, 6):
        made.make(number, age=60 - 10 * number)
    return made


def names(items):
    return [each.item.name for each in items]


def whys(items):
    return {each.item.name.removeprefix("clicker/"): each.why for each in items}


def whole(folder):
    """Return the numbers of the versions that readers get, each verified."""
    from trainfeed.training.models import Model

    for number in folder.versions():
        Model.open(folder, number).verify()
        assert folder.version(number).name == model_version(number)
    return folder.versions()
