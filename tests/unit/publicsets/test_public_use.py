"""``use_public_set``: verified by every account that may read the set."""

import os
import tempfile
from pathlib import Path

import pytest

from trainfeed.errors import AccessDeniedError, ChecksumError, ConfigError, NotFoundError
from trainfeed.publicsets import (
    build_public_set,
    known_public_root,
    open_public,
    public_root,
    publishing_root,
    use_public_set,
)
from trainfeed.versions import init_root

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="another account needs root")
NOBODY = 65534


@pytest.fixture
def open_root():
    """A publication root that every account may enter; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "dataset"
        init_root(place)
        yield place


def as_other_account(work):
    """Run ``work`` in a child of another account; returns its text, or the error's name."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            text = str(work())
        except BaseException as error:  # noqa: BLE001 (told to the parent)
            text = f"{type(error).__name__}: {error}"
        os.write(theirs, text.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        text = file.read().decode()
    os.waitpid(child, 0)
    return text


@as_root
def test_another_account_verifies_all_but_the_records_that_are_closed_to_it(mnist, open_root):
    build_public_set("mnist", originals=mnist[0], root=open_root)
    assert use_public_set("mnist", root=open_root).is_whole
    told = as_other_account(lambda: use_public_set("mnist", root=open_root).to_json()["state"])
    assert told == "verified, except turned-down records"
    told = as_other_account(lambda: build_public_set("mnist", originals=mnist[0], root=open_root))
    assert told.startswith("AccessDeniedError")


@as_root
def test_another_account_is_told_of_damage_all_the_same(mnist, open_root):
    build_public_set("mnist", originals=mnist[0], root=open_root)
    (licence,) = open_root.glob("mnist/versions/*/g0001/documents/LICENCE.txt")
    licence.chmod(0o644)
    licence.write_text("other")
    assert as_other_account(lambda: use_public_set("mnist", root=open_root)).startswith(
        "ChecksumError"
    )
    with pytest.raises(ChecksumError):
        use_public_set("mnist", root=open_root)


@as_root
def test_a_shard_that_is_closed_is_an_error_and_not_left_out(mnist, open_root):
    build_public_set("mnist", originals=mnist[0], root=open_root)
    next(open_root.glob("mnist/versions/*/g0001/mnist-train-*")).chmod(0o400)
    told = as_other_account(lambda: use_public_set("mnist", root=open_root))
    assert told.startswith("AccessDeniedError")


def write_config(home, mount):
    folder = home / ".trainfeed"
    folder.mkdir(parents=True)
    (folder / "config").write_text(
        "current-datacenter: dc1\ndatacenters:\n"
        f"- {{name: dc1, username: ada, mount: {mount}, local: true}}\n"
    )
    (folder / "config").chmod(0o600)


def test_a_set_is_found_in_the_public_folder_of_the_current_data_centre(mnist, root, tmp_path):
    build_public_set("mnist", originals=mnist[0], root=root)
    write_config(tmp_path / "home", root.parents[1])
    assert known_public_root() == root
    assert open_public("mnist", split="train").num_samples == 60
    found = use_public_set("mnist", root="pfs://public/dataset")
    assert (found.setting, found.argument) == (None, "")


def test_nothing_is_built_through_a_path_of_the_public_area(mnist, root, tmp_path):
    write_config(tmp_path / "home", root.parents[1])
    with pytest.raises(AccessDeniedError, match="pfs://public"):
        build_public_set("mnist", originals=mnist[0], root="pfs://public/dataset")
    assert [path.name for path in root.iterdir()] == ["TRAINFEED.json"]


def test_the_variable_comes_before_the_data_centre(root, tmp_path, monkeypatch):
    write_config(tmp_path / "home", tmp_path / "elsewhere")
    monkeypatch.setenv("TRAINFEED_PUBLIC", str(root.parent))
    assert public_root() == publishing_root() == root
    with pytest.raises(NotFoundError, match="trainfeed public build digits"):
        open_public("digits", split="train")


@pytest.mark.parametrize("ask", [public_root, publishing_root])
def test_without_variable_and_data_centre_the_setting_is_named(ask):
    with pytest.raises(ConfigError, match="expected TRAINFEED_PUBLIC"):
        ask()
    assert known_public_root() is None
