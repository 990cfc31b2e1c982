"""A folder that may not be listed is an error wherever a build looks for existing files."""

from datetime import UTC, datetime

import pytest

from tests.unit.refusals import refuse
from trainfeed.conversion import convert_files
from trainfeed.errors import AccessDeniedError
from trainfeed.functions import code_texts, training_texts
from trainfeed.pipeline import plans as _plan_file
from trainfeed.pipeline.inputs.boundary_files import boundary_files
from trainfeed.versions.training_marks import was_launched

DAY = "2024-03-01"


def boundaries(project):
    folder = project.folder.boundary("clicks", "uuid", datetime.now(UTC)).parent
    return folder, lambda: list(boundary_files(folder))


def plans(project):
    return project.folder.plans(DAY), lambda: _plan_file.earlier_plans(project.folder, DAY)


def jobs(project):
    return project.folder.training(DAY, "x").parent, lambda: was_launched(project.folder, DAY, 1)


def modules(project):
    return project.spec.folder / "parts", lambda: code_texts(project.spec)


def training_modules(project):
    return project.spec.folder / "parts", lambda: training_texts(project.spec.folder)


def shards(project):
    folder = project.path / "shards"
    return folder, lambda: convert_files(str(folder), project.path / "out", 1, "p")


@pytest.mark.parametrize("place", [boundaries, plans, jobs, modules, training_modules, shards])
def test_what_may_not_be_listed_does_not_count_as_empty(project, monkeypatch, place):
    folder, act = place(project)
    folder.mkdir(parents=True)
    with monkeypatch.context() as patch:
        refuse(patch, folder)
        with pytest.raises(AccessDeniedError, match="permission denied"):
            act()
