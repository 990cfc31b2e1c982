"""One process of a training on made-up samples: ``python … DATASET HOME``; tests kill it."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from tests.unit.training.points import Rows, job_over
from trainfeed.samples import Schema

DATASETS = Path(__file__).parents[3] / "include" / "datasets"
FLIGHTS = Schema.from_json(
    [
        {"name": "indices", "dtype": "int32", "shape": [4]},
        {"name": "values", "dtype": "float32", "shape": [3]},
        {"name": "label", "dtype": "int64", "shape": []},
    ]
)


def flights(count, rng):
    indices = rng.integers(0, 50, (count, 4), dtype=np.int32)
    values = rng.normal(size=(count, 3)).astype(np.float32)
    return {"indices": indices, "values": values, "label": (values[:, 0] > 0).astype(np.int64)}


def digits(count, rng):
    labels = rng.integers(0, 10, count)
    pixels = rng.integers(0, 5, (count, 64)).astype(np.uint8)
    pixels[np.arange(count), labels * 6] = 16
    return {"pixels": pixels, "label": labels}


def main(dataset, home):
    """Run ``main`` of the data set's ``train.py`` in a job below ``home``."""
    made, schema = {"flights": (flights, FLIGHTS), "digits": (digits, None)}[dataset]
    rng = np.random.default_rng(3)
    splits = {name: Rows(made(1500, rng), name, schema=schema) for name in ("train", "eval")}
    package = ModuleType("killed")
    package.__path__ = [str(DATASETS / dataset)]
    sys.modules["killed"] = package
    importlib.import_module("killed.train").main(job_over(Path(home), splits))


if __name__ == "__main__":
    main(*sys.argv[1:])
