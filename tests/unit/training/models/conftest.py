"""A model folder, and finished jobs to make versions of."""

import hashlib

import pytest

from trainfeed.training.models import Candidate, ModelData, ModelJob, ModelsFolder
from trainfeed.versions import init_root

FILES = {"model.npz": b"weights", "layers/0/w.bin": b"\0" * 1000}


@pytest.fixture
def root(tmp_path):
    init_root(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def folder(root):
    return ModelsFolder(root).model("clicks")


@pytest.fixture
def finished(tmp_path):
    """Make what a job leaves: number of the job, its metrics, its files, the data it read."""

    def make(number=1, *, auc=0.7, files=FILES, content="a" * 64):
        output = tmp_path / f"output-{number}"
        for name, data in files.items():
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            (output / name).write_bytes(data)
        job = ModelJob(
            dataset="clicks",
            interval="2024-03-01",
            name=f"clicks-2024-03-01-{number:012x}",
            identity=f"{number:064x}",
            entry="train:main",
            code="c" * 64,
            seed=7,
            ranks=1,
        )
        data = ModelData(
            interval="2024-03-01",
            generation="g0001",
            content_digest=content,
            manifest_sha256="b" * 64,
            fingerprint="f" * 64,
        )
        digests = {n: (len(d), hashlib.sha256(d).hexdigest()) for n, d in files.items()}
        return Candidate(job, [data], {"auc": auc}, output, digests)

    return make
