"""A few hundred made-up digits, as the installed distribution has the real ones."""

import gzip
import importlib.util
import random
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "include" / "datasets" / "digits"
NUM_DIGITS = 720


def image(rng, label):
    """Pixels that tell the label: the columns of two of eight rows, and noise."""
    pixels = [rng.randrange(6) for _ in range(64)]
    for column in range(8):
        pixels[label * 6 + column] = 10 + rng.randrange(7)
    return pixels


def install(folder, count=NUM_DIGITS):
    """Lay out the one file that is read of scikit-learn."""
    rng = random.Random(11)
    path = folder / "sklearn" / "datasets" / "data" / "digits.csv.gz"
    path.parent.mkdir(parents=True)
    labels = [rng.randrange(10) for _ in range(count)]
    rows = [",".join(map(str, [*image(rng, label), label])) for label in labels]
    path.write_bytes(gzip.compress("\n".join([*rows, ""]).encode()))
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return install(tmp_path_factory.mktemp("scikit-learn"))


@pytest.fixture
def load(monkeypatch):
    """Import a module of the data set's folder by its path, as trainfeed does."""

    def load(name):
        spec = importlib.util.spec_from_file_location(f"digits_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load
