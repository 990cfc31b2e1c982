"""Made-up impressions in the files of the installed distribution, which has the real ones."""

import csv
import importlib
import importlib.util
import random
import sys
from pathlib import Path

import pytest

from examples.ctr.impressions import CAMPAIGNS, LOGS

FOLDER = Path(__file__).parents[3] / "include" / "datasets" / "ctr"
ROWS_PER_DAY = 110
DAYS = ("2019-11-24", "2019-11-25")


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def impression(rng, day, number, num_items):
    return {
        "timestamp": f"{day} 00:{number // 60:02}:{number % 60:02}.000000+00:00",
        "item_id": rng.randrange(num_items),
        "position": rng.randint(1, 3),
        "click": int(rng.random() < 0.1),
        **{f"user_feature_{n}": f"{rng.randrange(5):032x}" for n in range(4)},
        **{f"user-item_affinity_{n}": float(rng.random() < 0.02) * 2 for n in range(num_items)},
    }


def item(rng, number):
    categories = {f"item_feature_{n}": f"{rng.randrange(9):032x}" for n in range(1, 4)}
    return {"item_id": number, "item_feature_0": rng.gauss(0, 1), **categories}


def install(folder, rows_per_day=ROWS_PER_DAY):
    """Lay out the files that are read of obp."""
    rng = random.Random(3)
    for log in LOGS:
        place, num_items = folder / "obp/dataset/obd" / log.policy / log.campaign, CAMPAIGNS
        rows = [
            impression(rng, day, number, num_items[log.campaign])
            for day in DAYS
            for number in range(rows_per_day)
        ]
        write_rows(place / f"{log.campaign}.csv", rows)
        items = [item(rng, number) for number in range(num_items[log.campaign])]
        write_rows(place / "item_context.csv", items)
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return install(tmp_path_factory.mktemp("obp"))


@pytest.fixture
def load(monkeypatch):
    """Import a module of the data set's folder as one of a package, as trainfeed does."""
    place = [str(FOLDER)]
    package = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("ctr_set", None, is_package=True)
    )
    package.__path__ = place
    monkeypatch.setitem(sys.modules, "ctr_set", package)

    def load(name):
        module = importlib.import_module(f"ctr_set.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return module

    yield load
    for name in [name for name in sys.modules if name.startswith("ctr_set.")]:
        del sys.modules[name]
