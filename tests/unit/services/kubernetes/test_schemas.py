"""The published schemas are those of the table, and read strictly they refuse what is misspelt."""

from __future__ import annotations

import copy
import hashlib
import io
import lzma
import os
import tarfile

import pytest

from services._process import ServiceError
from services.kubernetes import schemas
from tests.kubernetes_objects import CONTAINER, OBJECTS
from tests.kubernetes_schemas import problems


def _folders_of(found, path=()):
    """Every object below ``found``, by the keys that lead to it."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    if isinstance(found, dict):
        yield path
    for key, below in items:
        if isinstance(below, dict | list):
            yield from _folders_of(below, (*path, key))


def _files():
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(schemas.ARCHIVE.read_bytes()))) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


def test_every_file_of_others_has_the_digest_of_the_table():
    found = _files() | {"LICENSE": (schemas.FOLDER / "LICENSE").read_bytes()}
    rows = schemas.published()
    assert {name: hashlib.sha256(data).hexdigest() for name, data in found.items()} == {
        each.name: each.digest for each in rows
    }
    assert len(found) == len(rows) == 7
    folder = {path.name for path in schemas.FOLDER.iterdir()}
    assert folder == {"LICENSE", "README.md", schemas.ARCHIVE.name}


def test_a_file_without_its_digest_or_that_is_missing_is_refused(tmp_path, monkeypatch):
    name = "trainer.kubeflow.org_trainjobs.yaml"
    files = {name: _files()[name]}
    monkeypatch.setattr(schemas, "ARCHIVE", tmp_path / "schemas.tar.xz")
    schemas.ARCHIVE.write_bytes(schemas.archive_of(files))
    assert schemas.read_schema(name) == files[name]
    schemas.ARCHIVE.write_bytes(schemas.archive_of({name: files[name] + b" "}))
    with pytest.raises(ServiceError, match=f"{name} .*another one"):
        schemas.read_schema(name)
    with pytest.raises(ServiceError, match="no such file"):
        schemas.read_schema("other.yaml")


def test_equal_files_give_an_equal_archive():
    files = {"b.yaml": b"2\n", "a.yaml": b"1\n"}
    assert schemas.archive_of(files) == schemas.archive_of(dict(sorted(files.items())))


def test_the_archive_is_made_again_of_the_modules_of_the_table(tmp_path, monkeypatch):
    files = _files() | {"LICENSE": (schemas.FOLDER / "LICENSE").read_bytes()}
    for each in schemas.published():
        place = tmp_path / "modules" / each.module / each.version / each.folder / each.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(files[each.name])
    go = tmp_path / "go"
    go.write_text(
        '#!/bin/sh\nprintf \'{"Dir": "%s"}\' "'
        + str(tmp_path / "modules")
        + '/$(echo "$4" | tr @ /)"\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    copied = tmp_path / "third_party"
    copied.mkdir()
    (copied / "README.md").write_text((schemas.FOLDER / "README.md").read_text())
    monkeypatch.setattr(schemas, "FOLDER", copied)
    monkeypatch.setattr(schemas, "ARCHIVE", copied / "schemas.tar.xz")
    schemas.main()
    assert _files() | {"LICENSE": (copied / "LICENSE").read_bytes()} == files
    place.write_text("another licence")
    with pytest.raises(ServiceError, match=r"LICENSE of .* got "):
        schemas.main()


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_plain_object_of_each_kind_has_no_problem(kind):
    assert problems(OBJECTS[kind]) == []


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_field_that_a_kind_does_not_know_is_refused_wherever_it_stands(kind):
    free = {"selector", "pytorchReplicaSpecs", "paddleReplicaSpecs"}
    for path in _folders_of(OBJECTS[kind]):
        if path and path[-1] in free:
            continue  # maps with keys of the user
        broken = copy.deepcopy(OBJECTS[kind])
        place = broken
        for key in path:
            place = place[key]
        place["misspelt"] = 1
        assert any("misspelt" in problem for problem in problems(broken)), path


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "PaddleJob", "JobSet"])
def test_an_environment_variable_that_is_a_number_is_refused(kind):
    broken = copy.deepcopy(OBJECTS[kind])
    pods = [broken]
    while not (isinstance(pods[0], dict) and "containers" in pods[0]):
        found = pods.pop(0)
        below = found.values() if isinstance(found, dict) else found
        pods.extend(each for each in below if isinstance(each, dict | list))
    pods[0]["containers"] = [{**CONTAINER, "env": [{"name": "RANK", "value": 0}]}]
    assert any("0 is not of type 'string'" in problem for problem in problems(broken))
