"""The client of schema registries: what it asks, and what its answers mean."""

import base64
import json
import time

import pytest

from trainfeed.errors import ConfigError, IngestError, SourceUnreachableError
from trainfeed.pipeline.inputs import registries
from trainfeed.pipeline.inputs.registries import SchemaRegistry, registry_settings
from trainfeed.serving.server import NoAnswerError, Reply


class Answers:
    """Stands for the connections: path → status and JSON, or an error."""

    def __init__(self, answers):
        self.answers = answers
        self.headers = []
        self.url = "http://registry"

    def __call__(self, url, context, *, answer_seconds):  # noqa: ARG002 - as a class is called
        assert (context, answer_seconds) == (None, 10.0)
        return self

    def ask(self, method, path, *, headers, until):
        assert 5 < until - time.monotonic() <= 10
        self.headers.append(headers)
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Reply(f"{method} {path}", status, {}, data, len(data))

    def close(self):
        pass


@pytest.fixture
def client(monkeypatch):
    def make(answers, **settings):
        fake = Answers(answers)
        monkeypatch.setattr(registries, "Connections", fake)
        given = {"clicks": {"url": "http://127.0.0.1:8081/", **settings}}
        return SchemaRegistry("clicks", registry_settings(given, "clicks")), fake

    return make


def test_a_schema_comes_with_its_kind_and_its_references_in_the_order_of_their_use(client):
    registry, _ = client(
        {
            "/schemas/ids/7": (200, {
                "schema": "S", "references": [{"name": "b", "subject": "b/x", "version": 2}],
            }),
            "/subjects/b%2Fx/versions/2": (200, {
                "schema": "B", "references": [{"name": "a", "subject": "a", "version": 1}],
            }),
            "/subjects/a/versions/1": (200, {"schema": "A"}),
            "/schemas/ids/8": (200, {"schema": "P", "schemaType": "PROTOBUF", "references": None}),
        }
    )  # fmt: skip
    found = registry.schema(7)
    assert (found.kind, found.text) == ("AVRO", "S")
    assert list(found.references.items()) == [("a", "A"), ("b", "B")]
    assert registry.schema(8).kind == "PROTOBUF"


def test_an_unknown_id_is_no_error_and_another_404_is_one(client):
    registry, _ = client({"/schemas/ids/1": (404, {"error_code": 40403, "message": "none"})})
    assert registry.schema(1) is None
    registry, _ = client({"/schemas/ids/1": (404, b"<html>nginx</html>")})
    with pytest.raises(ConfigError, match="got status 404: <html>nginx"):
        registry.schema(1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (NoAnswerError("refused"), SourceUnreachableError),
        (NoAnswerError("certificate", wait_s=None), ConfigError),
        ((500, b""), SourceUnreachableError),
        ((503, b"away"), SourceUnreachableError),
        ((429, b""), SourceUnreachableError),
        ((401, b""), ConfigError),
        ((403, b""), ConfigError),
        ((200, b"no JSON"), ConfigError),
        ((200, {"schema": 1}), ConfigError),
        ((200, {"schema": "S", "references": [{"name": "a"}]}), IngestError),
    ],
)
def test_what_does_not_answer_is_tried_again_and_what_is_set_wrong_is_not(client, answer, error):
    registry, _ = client({"/schemas/ids/1": answer})
    with pytest.raises(error) as raised:
        registry.schema(1)
    assert type(raised.value) is error
    assert "'clicks'" in str(raised.value)
    assert "nothing was published" in str(raised.value)


def test_references_in_a_circle_end(client):
    circle = (200, {"schema": "A", "references": [{"name": "a", "subject": "a", "version": 1}]})
    registry, _ = client({"/schemas/ids/1": circle, "/subjects/a/versions/1": circle})
    with pytest.raises(IngestError, match="references in a circle, at 'a'"):
        registry.schema(1)


def test_credentials_are_shown_to_the_registry_and_nobody_else(client):
    answer = {"/schemas/ids/1": (500, b'{"password": "s3cret"}')}
    for settings, shown in (
        ({"token": "s3cret"}, "Bearer s3cret"),
        (
            {"username": "u", "password": "s3cret"},
            "Basic " + base64.b64encode(b"u:s3cret").decode(),
        ),
    ):
        registry, fake = client(answer, **settings)
        with pytest.raises(SourceUnreachableError) as raised:
            registry.schema(1)
        assert fake.headers[0]["Authorization"] == shown
        assert "s3cret" not in str(raised.value)
        given = {"url": "http://127.0.0.1", **settings}
        assert "s3cret" not in repr(registry_settings({"clicks": given}, "clicks"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "url as http://host"),
        ({"url": "registry:8081"}, "url as http://host"),
        ({"url": "http://[registry"}, "url as http://host"),
        ({"url": "http://registry:80x1"}, "url as http://host"),
        ({"url": "http://u:p@registry"}, "without credentials"),
        ({"url": "https://r", "user": "u"}, "only url, token"),
        ({"url": "https://r", "token": 5}, "token as a text"),
        ({"url": "https://r", "username": "u"}, "token, or username with password"),
        ({"url": "https://r", "token": "t", "username": "u", "password": "p"}, "token, or"),
        ({"url": "https://r", "certificate": "/c"}, "certificate with key"),
        ({"url": "http://far", "token": "t"}, "https:// for far"),
        ({"url": "https://r", "timeout_s": 0}, "timeout_s as seconds"),
    ],
)
def test_wrong_settings_are_told_without_their_values(settings, told):
    with pytest.raises(ConfigError, match=told) as raised:
        registry_settings({"clicks": settings}, "clicks")
    assert "'clicks'" in str(raised.value)
    assert ":p@" not in str(raised.value)
