"""A root with a version of many small chunks, and a master for it."""

import pytest

from tests.unit.pipeline.conftest import project
from tests.unit.serving.dispatch.masters import Place

__all__ = ["project"]


@pytest.fixture
def place(project, tmp_path):
    project.edit("samples_per_shard: 50", "samples_per_shard: 50, chunk_bytes: 64")
    project.prebuilt()
    folder = tmp_path / "master"
    folder.mkdir()
    return Place(tmp_path / "root", folder)
