"""A real schema registry, as a client of its makers' interface, beside a real broker."""

from __future__ import annotations

import json
import os
import urllib.request

import pytest

from tests.integration.kafka.conftest import Broker


class Registry:
    """Registers schemas; subjects have random names, so tests do not meet."""

    def __init__(self, url):
        self.url = url

    def register(self, subject, schema, kind="AVRO", references=()):
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        return self._ask("POST", f"/subjects/{subject}/versions", body)["id"]

    def schema(self, number):
        return self._ask("GET", f"/schemas/ids/{number}")["schema"]

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(self.url + path, data, kind, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@pytest.fixture
def registry():
    return Registry(os.environ["TEST_REGISTRY_URL"])


@pytest.fixture
def broker():
    broker = Broker(os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"])
    yield broker
    broker.clean_up()
