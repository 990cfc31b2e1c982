"""The data set ``clicks`` with generations of two contents, built in this process."""

import pytest

from tests.unit.pipeline.conftest import make_project
from trainfeed.upkeep.withdrawal import Maker

DAY = "2024-03-01"
ADA = Maker("ada", "builder", "labels of yesterday")


@pytest.fixture
def project(tmp_path):
    """One generation of ``DAY``."""
    project = make_project(tmp_path)
    project.prebuilt()
    return project


@pytest.fixture
def twice(project):
    """A second generation of ``DAY``, from other code; g0001 is good, g0002 is for readers."""
    project.edit("seed: 7", "seed: 8")
    project.prebuilt(rebuild="another seed")
    return project
