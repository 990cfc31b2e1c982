"""The server as a service: its data outlive a kill, and strangers are refused."""

import urllib.error
import urllib.request

import pytest

from services.s3 import S3
from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3


@pytest.fixture
def service(tmp_path):
    service = S3(tmp_path)
    service.install()
    service.start()
    service.wait()
    yield service
    service.stop()
    assert not any(service.status().values())


def test_a_killed_server_has_what_it_had(service, monkeypatch):
    access, secret = service.keys()
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    _s3._connect.cache_clear()
    place = Location.parse(f"s3://{service.BUCKET}/kept/file")
    assert place.create_exclusive(b"kept")

    service.kill("s3")
    assert service.status() == {"s3": None}
    service.start()
    service.wait()

    assert service.keys() == (access, secret)
    assert place.read_bytes() == b"kept"
    assert place.create_exclusive(b"other") is False

    service.start(fresh=True)
    service.wait()
    assert not place.exists()


def test_a_stranger_gets_nothing(service):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{service.url}/{service.BUCKET}", timeout=10)
    with refused.value as answer:
        assert answer.code == 403


def test_keys_and_data_are_for_the_owner_alone(service):
    assert (service.home / "keys").stat().st_mode & 0o777 == 0o600
    assert service.home.stat().st_mode & 0o777 == 0o700
    secrets = service.keys()
    for secret in secrets:
        assert secret not in (service.home / "logs" / "s3.log").read_text()
