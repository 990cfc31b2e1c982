"""The registry as a service: usable when it answers, and empty after a restart."""

import json
import urllib.error

import pytest

from services.registry import Registry
from tests.integration.registry.conftest import Registry as Client

SCHEMA = json.dumps({"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture
def service(tmp_path):
    service = Registry(tmp_path)
    service.install()
    service.start()
    service.wait()
    yield service
    service.stop()
    assert not any(service.status().values())


def test_a_restarted_registry_has_forgotten_its_schemas_and_gives_their_ids_again(service):
    client = Client(service.url)
    number = client.register("clicks-value", SCHEMA)
    assert client.schema(number) == SCHEMA

    service.kill("registry")
    assert service.status() == {"registry": None}
    service.start()
    service.wait()

    with pytest.raises(urllib.error.HTTPError) as refused:
        client.schema(number)
    with refused.value as answer:
        assert answer.code == 404
    assert client.register("other-value", '"string"') == number
