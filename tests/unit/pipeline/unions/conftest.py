"""A union of members of every kind, written once and copied for each test."""

import pytest

from tests.unit.pipeline.unions.every_kind import make_union_project


@pytest.fixture
def project(tmp_path, registry):
    return make_union_project(tmp_path)
