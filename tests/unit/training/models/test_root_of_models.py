"""Models lie beside data sets in the root, and nothing takes one for the other."""

import os
from datetime import timedelta

import pytest

from tests.unit.cli.conftest import cli
from tests.unit.pipeline.conftest import project
from tests.unit.training.models.test_registration import killed_at
from trainfeed.errors import SpecError
from trainfeed.pipeline.leftovers import sweep
from trainfeed.specification import RESERVED_NAMES, check_dataset_name
from trainfeed.training.models import PROD, ModelsFolder, promote, register
from trainfeed.upkeep.retention import Context, prune
from trainfeed.versions.root import data_sets_of

__all__ = ["cli", "project"]

ALL = timedelta(0)


@pytest.fixture
def folder(project, finished):
    folder = ModelsFolder(project.folder.root).model("clicks")
    register(folder, finished(1))
    register(folder, finished(2))
    promote(folder, PROD, 1, "first")
    return folder


def content(folder):
    return sorted(path for path in folder.models.rglob("*") if path.name not in {"tmp", "_trash"})


def test_models_are_no_data_set(folder, cli):
    assert data_sets_of(folder.models.parent) == []
    assert "models" not in cli("ls")[1]
    status, _, message = cli("ls", "models")
    assert status == 1
    assert "for models: trainfeed models ls" in message


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_no_data_set_has_a_reserved_name(name):
    with pytest.raises(SpecError, match="not reserved"):
        check_dataset_name(name)


def test_a_data_set_of_an_earlier_version_that_is_called_models_is_no_model(folder):
    (folder.models / "versions" / "2024-03-01" / "g0001").mkdir(parents=True)
    assert data_sets_of(folder.models.parent) == ["models"]
    assert ModelsFolder(folder.models.parent).names() == ["clicks"]


def test_housekeeping_and_retention_leave_models_alone(folder, project):
    before = content(folder)
    sweep(project.env, older_than=ALL)
    prune(Context.of(project.spec, project.env))
    assert content(folder) == before


def test_housekeeping_removes_what_killed_promotions_left(folder, project, finished, monkeypatch):
    before = content(folder)
    candidate = finished(3)
    killed_at(monkeypatch, "model.after_files", lambda: register(folder, candidate))
    left = folder.staged(candidate.job.identity, 3)
    assert left.is_dir()
    unfinished = folder.alias(PROD) / f".0002.json.{'0' * 32}.tmp"
    unfinished.touch()
    sweep(project.env, older_than=timedelta(hours=1))
    assert left.is_dir()
    for path in [unfinished, left, *left.rglob("*")]:
        os.utime(path, (0, 0))
    sweep(project.env, older_than=timedelta(hours=1))
    assert not left.exists()
    assert not unfinished.exists()
    assert content(folder) == before
