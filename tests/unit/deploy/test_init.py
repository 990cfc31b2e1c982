"""The settings of the service ``init``; tests/e2e/test_topology.py tests its work."""

from __future__ import annotations

import pytest

from deploy import init
from trainfeed.errors import ConfigError


def test_pools_are_those_of_the_variable():
    assert init._pools('{"kafka_reads": {"slots": 4}}') == {
        "kafka_reads": {"slots": 4, "description": "", "include_deferred": False}
    }


@pytest.mark.parametrize(
    "text", ["", "[]", "kafka_reads=4", '{"a": 4}', '{"a": {}}', '{"a": null}']
)
def test_pools_of_another_form_are_shown_with_one_that_is_right(text):
    with pytest.raises(ConfigError, match=r'POOLS to be JSON like \{"kafka_reads"') as caught:
        init._pools(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("name", ["ADMIN_PASSWORD", "POOLS"])
def test_a_missing_variable_is_named_before_anything_is_done(monkeypatch, name):
    monkeypatch.setenv("ADMIN_PASSWORD", "secret")
    monkeypatch.setenv("POOLS", "{}")
    monkeypatch.delenv(name)
    monkeypatch.setattr(init, "migrate", lambda: pytest.fail("it went on"))
    with pytest.raises(ConfigError, match=name):
        init.main()


def test_pools_that_data_sets_name_are_found(tmp_path, monkeypatch):
    folder = tmp_path / "clicks"
    folder.mkdir()
    (folder / "preprocess.py").touch()
    (folder / "dataset.yaml").write_text(
        "name: clicks\n"
        'schedule: "@daily"\n'
        "start: 2026-01-01\n"
        "source: {kafka: {topic: clicks}}\n"
        'preprocess: {function: "preprocess:clicks"}\n'
        "schema: {label: {dtype: int64}}\n"
        "resources: {pool: kafka_reads}\n"
    )
    monkeypatch.setenv("TRAINFEED_DATASETS", str(tmp_path))
    assert init._named_pools() == {"kafka_reads"}
