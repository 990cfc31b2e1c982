"""A publication root is made on purpose; any other folder is neither built in nor read as empty."""

import json
import threading

import pytest

from trainfeed.errors import FormatError, RootError, UnsuitableStoreError
from trainfeed.files.stores import posix
from trainfeed.loader import open_intervals
from trainfeed.readers import open_dataset
from trainfeed.versions.root import ROOT_MARKER, init_root, require_readable_root, require_root

DAY = "2024-03-01"


def test_a_root_is_made_with_the_folders_above_it_and_says_whose_it_is(tmp_path):
    root = tmp_path / "mnt" / "sets"
    mark, is_new = init_root(root)
    said = json.loads((root / ROOT_MARKER).read_bytes())
    assert is_new
    assert len(said.pop("digest")) == 64
    assert said == {
        "format": 1,
        "unsealed": {},
        "id": mark.id,
        "made_at": mark.made_at,
        "made_by": mark.made_by,
    }
    assert [path.name for path in root.iterdir()] == [ROOT_MARKER]
    assert require_root(root, "TRAINFEED_ROOT") == mark


def test_a_root_that_is_made_again_stays_the_same(tmp_path):
    first, _ = init_root(tmp_path)
    data = (tmp_path / ROOT_MARKER).read_bytes()
    assert init_root(tmp_path) == (first, False)
    assert (tmp_path / ROOT_MARKER).read_bytes() == data


def test_of_many_that_make_one_root_at_once_all_get_the_same(tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(init_root(tmp_path / "root")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({mark.id for mark, _ in found}) == 1
    assert sum(is_new for _, is_new in found) == 1


def test_a_folder_inside_of_a_root_is_refused_with_the_name_of_that_root(tmp_path):
    init_root(tmp_path)
    with pytest.raises(RootError, match=f"lies in the root {tmp_path}") as caught:
        init_root(tmp_path / "flights" / "root")
    assert "nothing was made" in str(caught.value)
    assert not (tmp_path / "flights").exists()


def test_a_file_system_that_cannot_publish_gets_no_marker(tmp_path, monkeypatch):
    def refuse(root):
        raise UnsuitableStoreError(f"{root}: no links")

    monkeypatch.setattr(posix, "probe", refuse)
    with pytest.raises(UnsuitableStoreError):
        init_root(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"format":2}', b'{"format":1,"id":"","made_at":"","made_by":""}']
)
def test_a_marker_that_says_something_else_is_named_and_kept(tmp_path, data):
    (tmp_path / ROOT_MARKER).write_bytes(data)
    for look in (init_root, lambda root: require_root(root, "TRAINFEED_ROOT")):
        with pytest.raises(FormatError, match=ROOT_MARKER):
            look(tmp_path)
    assert (tmp_path / ROOT_MARKER).read_bytes() == data


def test_a_marker_that_is_a_link_is_refused(tmp_path):
    (tmp_path / ROOT_MARKER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="plain file"):
        require_root(tmp_path, "TRAINFEED_ROOT")


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_readers_do_not_take_what_is_no_root_for_one_without_versions(tmp_path, name):
    (tmp_path / "empty").mkdir()
    for read in (
        lambda root: open_dataset("clicks", interval=DAY, split="train", root=root),
        lambda root: open_intervals("clicks", [DAY], split="train", root=root),
        lambda root: require_readable_root(root, "the argument 'root'"),
    ):
        with pytest.raises(RootError, match="expected the argument 'root' to name a publication"):
            read(tmp_path / name)


def test_a_variable_that_is_not_set_is_said_to_be_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINFEED_ROOT", raising=False)
    with pytest.raises(RootError, match=r"TRAINFEED_ROOT \(it is not set\)"):
        open_dataset("clicks", interval=DAY, split="train")


def test_the_command_of_the_message_can_be_pasted_whatever_the_folder_is_called(tmp_path):
    with pytest.raises(RootError) as caught:
        require_root(tmp_path / "my sets; rm -r x", "TRAINFEED_ROOT")
    assert str(caught.value).endswith(f"trainfeed init '{tmp_path}/my sets; rm -r x'")
