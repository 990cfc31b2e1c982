"""The archives for executors, and what two of them at once make of one."""

from __future__ import annotations

import importlib
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainfeed.errors import CodeChangedError
from trainfeed.pipeline.spark import shipment
from trainfeed.pipeline.spark.shipment import (
    Shipment,
    digest_of_file,
    forget_importers,
    require_package,
    unpacked,
)


@pytest.fixture
def packed(project, tmp_path):
    (tmp_path / "archives").mkdir()
    return Shipment.pack(project.spec.folder, tmp_path / "archives")


def test_equal_folders_give_equal_archives(project, packed, tmp_path):
    (tmp_path / "again").mkdir()
    again = Shipment.pack(project.spec.folder, tmp_path / "again")
    assert digest_of_file(again.folder) == digest_of_file(packed.folder)
    with zipfile.ZipFile(packed.folder) as archive:
        assert archive.namelist() == ["clicks/dataset.yaml", "clicks/preprocess.py"]
    with zipfile.ZipFile(packed.package) as archive:
        assert "trainfeed/pipeline/spark/_driver.py" in archive.namelist()
        assert all(name.endswith(".py") for name in archive.namelist())


def test_several_processes_unpack_one_folder(packed, tmp_path):
    place = tmp_path / "executor"
    place.mkdir()
    digest = digest_of_file(packed.folder)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: unpacked(packed.folder, digest, place), range(32)))
    assert found == {place / f"trainfeed-{digest}" / "clicks"}
    assert [path.name for path in place.iterdir()] == [f"trainfeed-{digest}"]


def test_an_archive_of_another_build_is_refused(packed, tmp_path):
    with pytest.raises(CodeChangedError, match=f"with digest {'0' * 64}, as it was shipped"):
        unpacked(packed.folder, "0" * 64, tmp_path)


def test_a_package_from_elsewhere_than_the_archive_is_refused(packed, monkeypatch):
    with pytest.raises(CodeChangedError, match="expected the package trainfeed with digest"):
        require_package(digest_of_file(packed.package))
    inside = packed.package / "trainfeed" / "__init__.py"
    monkeypatch.setattr(shipment.trainfeed, "__file__", str(inside))
    require_package(digest_of_file(packed.package))


def test_only_the_importer_of_the_whole_archive_reads_it_again(tmp_path, monkeypatch):
    archive = tmp_path / "shipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("__init__", "inner/__init__", "inner/first", "inner/second"):
            file.writestr(f"shipped_rooms/{name}.py", "")
    monkeypatch.syspath_prepend(archive)
    importlib.import_module("shipped_rooms.inner.first")
    places = [place for place in sys.path_importer_cache if place.startswith(str(archive))]
    assert len(places) == 3
    forget_importers()
    assert [place for place in places if place in sys.path_importer_cache] == [str(archive)]
    importlib.invalidate_caches()
    assert importlib.import_module("shipped_rooms.inner.second").__file__.startswith(str(archive))
