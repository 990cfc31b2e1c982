from __future__ import annotations

import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from trainfeed.errors import ConfigError, FormatError
from trainfeed.files.stores import Location


@pytest.mark.parametrize(
    ("uri", "scheme", "path", "canonical"),
    [
        ("/data/x", "file", "/data/x", "file:///data/x"),
        ("/", "file", "/", "file:///"),
        ("//data//x/", "file", "/data/x", "file:///data/x"),
        ("file:///data/a b%20#?", "file", "/data/a b%20#?", "file:///data/a b%20#?"),
        ("hdfs://host:8020/x", "hdfs", "/x", "hdfs://host:8020/x"),
        ("hdfs://service/x", "hdfs", "/x", "hdfs://service/x"),
        ("hdfs://host:8020", "hdfs", "/", "hdfs://host:8020/"),
        ("webhdfs://host:9870/x", "webhdfs", "/x", "webhdfs://host:9870/x"),
        ("webhdfs://me@host:9870/x/y", "webhdfs", "/x/y", "webhdfs://me@host:9870/x/y"),
        ("webhdfs://[::1]:9870/x", "webhdfs", "/x", "webhdfs://[::1]:9870/x"),
        ("s3://bucket/x/y", "s3", "/x/y", "s3://bucket/x/y"),
        ("s3://my.bucket-1", "s3", "/", "s3://my.bucket-1/"),
    ],
)
def test_uris_name_a_file_system_and_a_path(
    uri: str, scheme: str, path: str, canonical: str
) -> None:
    location = Location.parse(uri)
    assert (location.fs.scheme, location.path, location.uri) == (scheme, path, canonical)
    assert Location.parse(location.uri) == location


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "relative/path",
        "s3:///x",
        "s3://Bucket/x",
        "s3://b/x",
        "s3://key@bucket/x",
        "s3://host:9000/x",
        "file://host/x",
        "webhdfs://host/x",
        "webhdfs://host:port/x",
        "hdfs:///x",
        "hdfs://host:8020:1/x",
        "/data/../etc",
        "/data/./x",
        "hdfs://host:8020/a/../b",
        "/data/\0",
    ],
)
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        Location.parse(uri)


def test_an_hdfs_uri_with_a_user_is_refused_because_the_client_would_ignore_it() -> None:
    with pytest.raises(ConfigError, match="HADOOP_USER_NAME"):
        Location.parse("hdfs://me@host:8020/x")


def test_a_password_in_a_uri_is_refused_and_not_shown() -> None:
    """SE-20."""
    for start in ("hdfs://", "webhdfs://", "s3://", "webhdfs:/"):
        for password in ("canary", "canary/canary", "canary/../canary", "12/../canary"):
            with pytest.raises(ConfigError) as caught:
                Location.parse(f"{start}me:{password}@host:9870/x")
            assert "canary" not in str(caught.value)


@pytest.mark.parametrize("root", ["/", "/data", "hdfs://host:8020/"])
@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "/etc", "a/..", "../a", "a//b", "a/", "./a", "a\0b"]
)
def test_a_name_cannot_leave_its_folder(root: str, name: str) -> None:
    """SE-06."""
    with pytest.raises(ConfigError, match="relative path below"):
        Location.parse(root) / name


def test_names_are_joined_and_taken_apart() -> None:
    root = Location.parse("/")
    assert (root / "a").path == "/a"
    assert (root / "a/b" / "c").path == "/a/b/c"
    assert (root / "a/b").name == "b"
    assert (root / "a/b").parent == root / "a"
    assert (root / "a").parent == root
    assert root.parent == root
    assert root.name == ""


def test_nothing_moves_between_file_systems() -> None:
    with pytest.raises(ConfigError, match="copy the file instead"):
        Location.parse("/x").renaming("a test").rename(Location.parse("hdfs://host:8020/x"))
    with pytest.raises(ConfigError, match="copy the file instead"):
        Location.parse("hdfs://one:8020/x").renaming("a test").replace(
            Location.parse("hdfs://two:8020/x")
        )


def test_importing_and_parsing_loads_no_client() -> None:
    code = (
        "import sys; from trainfeed.files.stores import Location;"
        "Location.parse('hdfs://h:1/x'); Location.parse('webhdfs://h:1/x');"
        "Location.parse('s3://bucket/x');"
        "clients = {'hdfs', 'hdfs_native', 'obstore', 'requests', 'numpy', 'pyarrow'};"
        "sys.exit(bool(clients & set(sys.modules)))"
    )
    paths = {"PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=paths, check=False).returncode == 0


def test_a_small_file_takes_little_memory_and_a_large_one_is_whole(tmp_path: Path) -> None:
    small, large = (Location.parse(str(tmp_path / name)) for name in ("small", "large"))
    (tmp_path / "small").write_bytes(b"bytes")
    content = random.Random(0).randbytes((3 << 20) + 1)
    (tmp_path / "large").write_bytes(content)
    tracemalloc.start()
    assert small.read_bytes() == b"bytes"
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 << 20
    assert large.read_bytes(max_bytes=len(content)) == content
    with pytest.raises(FormatError, match="at most"):
        large.read_bytes(max_bytes=len(content) - 1)


@pytest.mark.parametrize("halves", [(), ("AWS_ACCESS_KEY_ID",), ("AWS_ROLE_ARN",)])
def test_without_keys_nobody_is_asked_for_them(monkeypatch, halves):
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name in halves:
        monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID"):
        Location.parse("s3://bucket/prefix").exists()
