"""radosgw 16, which ignores a condition: versions are safe there, because none relies on that one.

It obeys the condition of a PutObject, also of eight at once, so ``trainfeed init`` accepts it; that
of an upload in parts it ignores in silence, and a manifest is never sent in parts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from services.radosgw import RadosGw
from tests.integration.s3.bucket_projects import publish_version
from tests.integration.s3.test_bucket_versions import (  # noqa: F401 - these run here, too
    root,
    source,
    test_a_kill_at_any_request_leaves_a_version_absent_or_whole,
    test_a_version_in_a_bucket_is_that_of_the_folder,
    test_a_version_is_absent_or_whole_after_a_kill,
    test_of_eight_writers_of_one_version_one_publishes_it,
    test_of_writers_of_two_contents_one_wins_and_the_others_are_told,
)
from tests.unit.files.stores.file_system_behaviour import race
from tests.unit.processes import LIMIT_S
from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3

PARTS = (
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>"
    "</CompleteMultipartUpload>"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RadosGw]:
    service = RadosGw(tmp_path_factory.mktemp("radosgw"))
    if reason := service.unavailable():
        pytest.skip(reason)
    service.install()
    try:
        service.start()
        service.wait()
        yield service
    finally:
        service.stop()
    assert not any(service.status().values())


@pytest.fixture(autouse=True)
def account(server: RadosGw, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The account of this server, in place of that of the other tests of this folder."""
    monkeypatch.setenv("TEST_S3_URI", f"s3://{server.BUCKET}")
    for name, value in server.exports().items():
        monkeypatch.setenv(name, value)
    _s3._connect.cache_clear()
    yield
    _s3._connect.cache_clear()


def put_in_parts(server: RadosGw, key: str, data: bytes, **headers: str) -> int:
    """Send an object as one part, with these headers at its end; return the last status."""
    path = f"/{server.BUCKET}/{key}"
    _, said = server.ask("POST", f"{path}?uploads")
    (number,) = re.findall(r"<UploadId>([^<]+)", said)
    _, tag = server.ask("PUT", f"{path}?partNumber=1&uploadId={number}", data)
    done = PARTS.format(tag).encode()
    return server.ask("POST", f"{path}?uploadId={number}", done, **headers)[0]


def test_the_condition_of_an_upload_in_parts_is_ignored(server: RadosGw, folder: Location) -> None:
    place = folder / "object"
    assert place.create_exclusive(b"first")
    key = place.path.strip("/")
    assert put_in_parts(server, key, b"second", If_None_Match="*") == 200
    assert place.read_bytes() == b"second"


def test_the_condition_of_one_request_holds_for_eight_at_once(folder: Location) -> None:
    for number in range(20):
        place = folder / str(number)
        contents = [bytes([65 + writer]) * 100_000 for writer in range(8)]
        won = race([lambda data=data, at=place: at.create_exclusive(data) for data in contents])
        assert sum(won) == 1
        assert place.read_bytes() == contents[won.index(True)]


def test_a_root_is_made_there(folder: Location) -> None:
    command = [sys.executable, "-m", "trainfeed", "init", folder.uri, "--json"]
    said = subprocess.run(command, capture_output=True, check=True, timeout=LIMIT_S).stdout
    assert json.loads(said)["verdict"] == "made"


def test_no_manifest_goes_the_way_whose_condition_is_ignored(
    root: Location,  # noqa: F811
    source,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However small the parts are, a manifest stays one request; other files do not."""
    sent: list[str] = []
    put, open_writer = _s3.S3FileSystem.put, _s3._package().open_writer
    monkeypatch.setattr(_s3, "_PART_BYTES", 100)
    monkeypatch.setattr(
        _s3._package(),
        "open_writer",
        lambda client, key, **_: (sent.append(key), open_writer(client, key))[1],
    )
    monkeypatch.setattr(
        _s3.S3FileSystem,
        "put",
        lambda fs, path, *a, **o: (sent.append(f"one request: {path}"), put(fs, path, *a, **o))[1],
    )
    assert publish_version(root, source) == "published"
    manifests = [each for each in sent if each.endswith("MANIFEST.json")]
    assert len(manifests) == 1
    assert manifests[0].startswith("one request: ")
    assert any("one request" not in each for each in sent)
