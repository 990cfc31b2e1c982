"""A loader worker starts fast and stays small: it imports only the modules that load windows."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.loader.conftest import children
from tests.unit.loader.datasets import Squares
from trainfeed.loader import DataLoader

ROOT = Path(__file__).parents[4]
HEAVY = {"pyarrow", "pydantic"}
# Native libraries of what is heavy, as the kernel lists what a process has mapped.
LIBRARIES = ("libarrow", "_pydantic_core")


def test_the_program_of_a_worker_brings_no_arrow_and_no_published_version_along():
    code = "import sys, trainfeed.loader.worker; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "include")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert not loaded & HEAVY
    rooms = {name for name in loaded if name.startswith("trainfeed.")}
    assert "trainfeed.loader.windows" in rooms
    assert not rooms & {"trainfeed.loader.loader", "trainfeed.loader.record_files"}
    assert not rooms & {"trainfeed.readers", "trainfeed.decorators", "trainfeed.specification"}


@pytest.mark.parametrize("kind", ["objects", "images", "notes"])
def test_a_worker_that_loads_windows_has_no_arrow_in_memory(kind, request):
    dataset = Squares(100) if kind == "objects" else request.getfixturevalue(kind)
    before = children()
    with DataLoader(dataset, 10, num_workers=1) as loader:
        batches = iter(loader)
        next(batches)
        (worker,) = children() - before
        mapped = Path(f"/proc/{worker}/maps").read_text()
    assert "numpy" in mapped
    assert not [name for name in LIBRARIES if name in mapped]
