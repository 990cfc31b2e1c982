"""A publication root for public sets, and MNIST with few digits."""

import pytest

from tests.unit.publicsets.idx_files import write_mnist
from trainfeed.versions import init_root


@pytest.fixture
def root(tmp_path):
    place = tmp_path / "public" / "dataset"
    init_root(place)
    return place


@pytest.fixture
def mnist(tmp_path):
    """Folder with the files, and the digits in them."""
    folder = tmp_path / "idx"
    return folder, *write_mnist(folder)


@pytest.fixture(autouse=True)
def no_public_folder(monkeypatch, tmp_path):
    """No public folder and no data centre of the machine that runs the tests."""
    monkeypatch.delenv("TRAINFEED_PUBLIC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
