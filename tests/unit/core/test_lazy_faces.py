"""Faces that import on demand find their names wherever the package lies."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import trainfeed

PACKAGE = Path(trainfeed.__file__).parent


def test_a_package_in_an_archive_has_all_names(tmp_path):
    archive = tmp_path / "package.zip"
    with ZipFile(archive, "w") as zipped:
        for path in PACKAGE.rglob("*.py"):
            zipped.write(path, path.relative_to(PACKAGE.parent))
    code = (
        "from trainfeed.core.datacenters import local_source\n"
        "from trainfeed.specification import check_name\n"
        "print(local_source.__code__.co_filename)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(archive))
