"""Values behind a schema registry on executors, which ask none: what ``ingest`` kept counts."""

import pytest

from tests.integration.spark.conftest import Case
from tests.unit.pipeline.inputs.avro_clicks import (
    BATCH_CODE,
    RECORD_CODE,
    fake_registry,
    of_avro,
    record_days,
)
from trainfeed.versions import Manifest


@pytest.mark.parametrize("code", [BATCH_CODE, RECORD_CODE], ids=["batch", "record"])
def test_both_engines_build_equal_versions_of_two_writers(project, monkeypatch, tmp_path, code):
    fake_registry(monkeypatch)
    avro = of_avro(project, code)
    record_days(avro, lambda _, number, value: b"{}" if number == 7 else value)
    case = Case(avro.spec, "2024-03-01", avro.env, 80).in_groups(3)
    one, other = case.at(tmp_path / "local", "local"), case.at(tmp_path / "spark", "spark")
    one.build()
    other.build()
    assert one.digest == other.digest
    found, _ = Manifest.read(other.version)
    assert found.quarantine["reasons"] == {"no_schema_id": 1, "no_value": 8}
    assert [each["id"] for each in found.schemas["writers"]] == [1, 2]
