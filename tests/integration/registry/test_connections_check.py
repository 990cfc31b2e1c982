"""``connections check`` and a schema registry: it answers, is another server, or is away."""

from dataclasses import replace

import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.look.connections import check_connections

__all__ = ["project"]

SCHEMA = '{"type": "record", "name": "Click", "fields": [{"name": "value", "type": "double"}]}'


@pytest.fixture
def answer(project):
    """Ask the registry of a data set at a URL."""
    project.edit("topic: clicks", "topic: clicks, value: {format: avro, schema: click.avsc}")
    (project.env.datasets / "clicks" / "click.avsc").write_text(SCHEMA)

    def ask(**settings):
        env = replace(project.env, registries={"registry_default": settings} if settings else {})
        answers = check_connections(env)
        (found,) = (a for a in answers if a.connection.kind == "schema registry")
        return found

    return ask


def test_a_registry_says_what_kinds_of_schemas_it_has(answer, registry):
    found = answer(url=registry.url)
    assert (found.is_ok, found.connection.used_by) == (True, ("clicks",))
    assert "AVRO" in found.message
    assert found.connection.place == registry.url


def test_another_server_and_none_are_told_apart(answer, registry):
    found = answer(url=registry.url.rpartition("/apis")[0] + "/nothing")
    assert (found.is_ok, "name the URL" in found.message) == (False, True)
    found = answer(url="http://127.0.0.1:1")
    assert (found.is_ok, "gives no answer" in found.message) == (False, True)


def test_settings_that_are_missing_or_wrong_are_named_without_their_secrets(answer):
    found = answer()
    assert (found.is_ok, "TRAINFEED_REGISTRY" in found.message) == (False, True)
    found = answer(url="http://registry.example", token="canary-7ac3")
    assert (found.is_ok, "https://" in found.message) == (False, True)
    assert "canary" not in str(found.to_json())
