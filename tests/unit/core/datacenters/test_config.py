"""``~/.trainfeed/config``: every key is checked, and no secret is in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainfeed
from trainfeed.core.datacenters import Datacenter, read_datacenters
from trainfeed.errors import ConfigError

FULL = """
datacenters:
  - name: dc1
    username: alice
    mount: /mnt/dc1
    endpoint: https://pfs.example.org:8443/
    token_file: ~/.trainfeed/dc1.token
    ca_file: /etc/ca.pem
    usercert: /etc/alice.pem
    userkey: /etc/alice.key
  - {name: dc2, username: a.b@example.org, home: /mnt/mine, public: /mnt/all}
  - {name: dc3, username: bob, local: true}
current-datacenter: dc2
"""
ONE = "datacenters: [{{name: dc1, username: alice, {}}}]"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".trainfeed").mkdir()
    return tmp_path


def write(home, text, mode=0o600):
    path = home / ".trainfeed/config"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_data_centres_are_read_from_the_home_folder(home):
    path = write(home, FULL)
    found = read_datacenters()
    assert found.named("dc1") == Datacenter(
        "dc1",
        "alice",
        Path("/mnt/dc1/home/alice"),
        Path("/mnt/dc1/public"),
        "https://pfs.example.org:8443",
        home / ".trainfeed/dc1.token",
        Path("/etc/ca.pem"),
        Path("/etc/alice.pem"),
        Path("/etc/alice.key"),
    )
    assert found.current == Datacenter(
        "dc2", "a.b@example.org", Path("/mnt/mine"), Path("/mnt/all")
    )
    assert found.named("dc3").home == Path("/pfs/dc3/home/bob")
    assert (found.named("dc3").is_local, found.named("dc1").is_local) == (True, False)
    assert found.named("dc3").public == Path("/pfs/dc3/public")
    assert found.source == path
    with pytest.raises(ConfigError, match="dc1, dc2, dc3, got 'dc4'"):
        found.named("dc4")


def test_a_single_data_centre_is_the_current_one(home):
    write(home, ONE.format("home: /mnt/h"))
    found = read_datacenters().current
    assert (found.home, found.public) == (Path("/mnt/h"), Path("/pfs/dc1/public"))


def test_a_changed_file_is_read_again(home):
    write(home, ONE.format("home: /mnt/h"))
    assert read_datacenters() is read_datacenters()
    write(home, ONE.format("home: /mnt/g"))
    assert read_datacenters().current.home == Path("/mnt/g")


REFUSED = {
    "expected YAML": "datacenters: [",
    "line 1": "a: b: c",
    "expected keys with values in the file": "[]",
    "expected a list of data centres": "current-datacenter: dc1",
    "expected keys with values in data centre 1": "datacenters: [dc1]",
    "expected a username": "datacenters: [{name: dc1}]",
    "expected a name": "datacenters: [{username: alice}]",
    "one name twice": "datacenters: [{name: a, username: b}, {name: a, username: c}]",
    "current-datacenter to be one of a, b, got None": (
        "datacenters: [{name: a, username: b}, {name: b, username: c}]"
    ),
    "current-datacenter to be one of dc1, got 'dc2'": ONE.format("home: /a")
    + "\ncurrent-datacenter: dc2",
    "did you mean datacenters": "datacentres: []",
    "did you mean token_file": ONE.format("token-file: /a"),
    "known are name": ONE.format("zzz: /a"),
    "holds no secret": ONE.format("password: geheim"),
    "expected a text for mount": ONE.format("mount: 7"),
    "expected a text for home": ONE.format('home: ""'),
    "expected a text for public": ONE.format('public: "/a\\0"'),
    "expected true or false for local": ONE.format('local: "yes"'),
    "absolute path without '..' for mount": ONE.format("mount: mnt"),
    "absolute path without '..' for home": ONE.format("home: /mnt/../etc"),
    "got all three": ONE.format("mount: /a, home: /b, public: /c"),
    "usercert and userkey": ONE.format("usercert: /a"),
    "a data centre's name": "datacenters: [{name: a/b, username: b}]",
    "a user's name": "datacenters: [{name: a, username: ../b}]",
}


@pytest.mark.parametrize(("message", "text"), REFUSED.items(), ids=REFUSED)
def test_a_wrong_entry_is_named(home, message, text):
    path = write(home, text)
    with pytest.raises(ConfigError) as caught:
        read_datacenters()
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_password_is_not_repeated(home):
    write(home, ONE.format("password: geheim"))
    with pytest.raises(ConfigError) as caught:
        read_datacenters()
    assert "geheim" not in str(caught.value)


def test_yaml_that_makes_objects_is_refused(home):
    write(home, "datacenters: !!python/object/apply:os.system [true]")
    with pytest.raises(ConfigError, match="YAML"):
        read_datacenters()


@pytest.mark.parametrize(
    "endpoint",
    [
        "pfs.example.org",
        "https://",
        "ftp://pfs.example.org",
        "http://pfs.example.org",
        "https://alice:geheim@pfs.example.org",
        "https://pfs.example.org/path",
        "https://pfs.example.org?a=b",
        "https://pfs.example.org#a",
        "https://pfs.example.org:0",
        "https://pfs.example.org:70000",
        "https://pfs.example.org:port",
        "https://pfs example.org",
        "https://pfs.example.org\\@evil.example",
        "https://-pfs.example.org",
        "https://[::1",
        "https://pfs.example.org\\n",
    ],
)
def test_a_malformed_endpoint_is_refused(home, endpoint):
    write(home, ONE.format(f'endpoint: "{endpoint}"'.replace("\\@", "\\\\@")))
    with pytest.raises(ConfigError, match="endpoint") as caught:
        read_datacenters()
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint",
    ["https://a", "https://a.b:1", "https://[::1]:8443", "http://127.0.0.1:80", "http://localhost"],
)
def test_a_good_endpoint_is_kept(home, endpoint):
    write(home, ONE.format(f'endpoint: "{endpoint}"'))
    assert read_datacenters().current.endpoint == endpoint


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(home, mode):
    write(home, ONE.format("home: /a"), mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_datacenters()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another account")
def test_a_file_of_another_account_is_refused(home):
    os.chown(write(home, ONE.format("home: /a")), 12345, -1)
    with pytest.raises(ConfigError, match="user 12345"):
        read_datacenters()


def test_a_missing_file_is_told_with_an_example(home):
    with pytest.raises(ConfigError, match="got no file; write one, for instance: datacenters"):
        read_datacenters()


def test_a_pipe_and_a_folder_are_refused_at_once(home):
    path = home / ".trainfeed/config"
    path.mkdir()
    with pytest.raises(ConfigError):
        read_datacenters()
    path.rmdir()
    os.mkfifo(path, 0o600)
    with pytest.raises(ConfigError, match="plain file"):
        read_datacenters()


def test_a_file_without_end_is_refused(home):
    write(home, "#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="at most"):
        read_datacenters()


def test_a_process_without_shared_paths_imports_neither_yaml_nor_the_rest_of_the_room():
    code = (
        "import sys; from trainfeed.files import expand_paths; expand_paths('.')\n"
        "print(*sorted(n for n in sys.modules if 'yaml' in n or '.datacenters' in n))"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(trainfeed.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.split() == [
        "trainfeed.core.datacenters",
        "trainfeed.core.datacenters.shared_places",
    ]
