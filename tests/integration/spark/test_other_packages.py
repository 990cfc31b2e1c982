"""Executors with other files of a package that the function imports: told before any record."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import shutil
from pathlib import Path

import pytest

from trainfeed.errors import ConfigError

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
PACKAGE = "six"
CHANGE = "\nchanged = True\n"


@pytest.fixture
def modules(tmp_path):
    """A folder with the installed package, which executors find before the installed one."""
    place = tmp_path / "modules"
    place.mkdir()
    for file in importlib.metadata.distribution(PACKAGE).files:
        if file.parts[0] == f"{PACKAGE}.py" or file.parts[0].endswith(".dist-info"):
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), place / file)
    return place


def change(place, *, also_list):
    """Change the module; with ``also_list``, as another package of the same version has it."""
    file = place / f"{PACKAGE}.py"
    before = file.read_bytes()
    file.write_bytes(before + CHANGE.encode())
    if also_list:
        (record,) = place.glob("*.dist-info/RECORD")
        old, new = map(listed, (before, file.read_bytes()))
        assert old in record.read_text()
        record.write_text(record.read_text().replace(old, new))


def listed(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def interpreter(folder, modules):
    path = folder / "python"
    own = os.environ["TEST_SPARK_HOME"] + "/bin/python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{modules}:$PYTHONPATH" exec {own} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("also_list", "said"),
    [
        (True, rf"the package {PACKAGE} [\d.]+ \w{{64}} on .* process has it, got [\d.]+ \w{{64}}"),
        (False, rf"the files of {PACKAGE} .* found 1 changed: {PACKAGE}\.py"),
    ],
)
def test_a_package_of_other_bytes_ends_the_application_before_a_record_is_read(
    project, clicks, tmp_path, modules, also_list, said
):
    called = tmp_path / "called"
    begin = "    row = record.json()\n"
    project.edit(begin, f"    open({str(called)!r}, 'w').close()\n{begin}", "preprocess.py")
    project.edit("\ndef clicks", f"\nimport {PACKAGE}\n\n\ndef clicks", "preprocess.py")
    conf = {"spark.pyspark.python": interpreter(tmp_path, modules)}
    there = clicks.read_again().at(tmp_path / "there", "spark", **conf)
    change(modules, also_list=also_list)
    with pytest.raises(ConfigError, match=said):
        there.build()
    assert not called.exists()
    assert list(Path(there.env.root).glob("clicks/versions/*/g*")) == []
