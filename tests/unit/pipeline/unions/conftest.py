"""A union of members of every kind, written once and copied for each test."""

import pytest

from tests.unit.pipeline.inputs.avro_clicks import KEY, NEW, OLD, FakeRegistry
from tests.unit.pipeline.unions.every_kind import make_union_project
from trainfeed.pipeline.inputs import registries


@pytest.fixture
def registry(monkeypatch):
    fake = FakeRegistry()
    fake.known = {1: OLD, 2: NEW, 9: KEY}
    monkeypatch.setattr(registries, "SchemaRegistry", fake)
    return fake


@pytest.fixture
def project(tmp_path, registry):
    return make_union_project(tmp_path)
