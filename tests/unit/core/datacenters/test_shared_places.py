"""From ``pfs://`` to a path of this machine: patterns, lists, links, and areas that are away."""

from pathlib import Path

import numpy as np
import pytest

from trainfeed.compat import paddle
from trainfeed.conversion import convert
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import AccessDeniedError, ConfigError, NotFoundError
from trainfeed.files import expand_paths
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.readers import open_dataset, recordio
from trainfeed.samples import Field, Schema

SCHEMA = Schema((Field("label", "int64"),))


def labels(count):
    return lambda: ({"label": number} for number in range(count))


def test_a_shared_path_is_the_path_on_its_mount(areas):
    assert local_source("pfs://home/a/b") == f"{areas.home}/a/b"
    assert local_source("pfs://public//a/./b/") == f"{areas.public}/a/b/"
    assert local_target("pfs://home/a/b") == f"{areas.home}/a/b"


def test_other_paths_pass_unchanged(areas):
    areas.config.unlink()
    for path in ("a", "/pfs/dc1/home/alice/a", "./pfs://home/a", Path("a"), "file:///a", ""):
        assert local_source(path) is path
        assert local_target(path) is path


def test_lists_and_patterns_are_expanded_on_the_mount(areas):
    for name in ("a-00000-of-00001", "a-00001-of-00001", "b"):
        (areas.home / name).touch()
    (areas.public / "c").touch()
    assert expand_paths("pfs://home/a-*-of-*,pfs://home/b,pfs://public/?") == [
        f"{areas.home}/a-00000-of-00001",
        f"{areas.home}/a-00001-of-00001",
        f"{areas.home}/b",
        f"{areas.public}/c",
    ]
    with pytest.raises(NotFoundError, match="'pfs://home/x\\*'"):
        expand_paths("pfs://home/x*")


def test_the_folder_of_a_mount_is_no_pattern(areas, tmp_path):
    folder = tmp_path / "mnt/[a]*"
    folder.mkdir()
    (folder / "x1").touch()
    areas.config.write_text(
        f"datacenters: [{{name: dc1, username: alice, home: '{folder}', local: true}}]"
    )
    assert expand_paths("pfs://home/x*") == [f"{folder}/x1"]


def test_a_match_whose_link_leads_out_is_refused(areas, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (areas.home / "a1").touch()
    (areas.home / "a2").symlink_to(tmp_path / "secret")
    with pytest.raises(AccessDeniedError, match=r"a2 to .*secret"):
        expand_paths("pfs://home/a*")
    assert expand_paths("pfs://home/a1") == [f"{areas.home}/a1"]


def test_a_mount_that_is_itself_a_link_is_no_way_out(areas, tmp_path):
    (tmp_path / "moved").mkdir()
    areas.home.rmdir()
    areas.home.symlink_to(tmp_path / "moved")
    (areas.home / "a").touch()
    assert expand_paths("pfs://home/a") == [f"{areas.home}/a"]


def test_a_neighbour_whose_name_begins_alike_is_outside(areas):
    neighbour = areas.home.with_name("home2")
    neighbour.mkdir()
    (areas.home / "way").symlink_to(neighbour)
    with pytest.raises(AccessDeniedError, match="a link leads"):
        local_source("pfs://home/way")


def test_an_area_that_is_not_mounted_names_the_command_that_copies(areas):
    areas.public.rmdir()
    with pytest.raises(ConfigError, match=r"pfs://public to be mounted.*trainfeed pfs cp"):
        expand_paths("pfs://public/*")
    with pytest.raises(ConfigError, match="trainfeed pfs cp"):
        local_source("pfs://public/a")


def test_a_mount_that_may_not_be_looked_at_is_told(areas, monkeypatch):
    def refused(_):
        raise PermissionError(13, "permission denied")

    monkeypatch.setattr(Path, "is_dir", refused)
    with pytest.raises(AccessDeniedError, match="permission denied"):
        local_source("pfs://home/a")


def test_a_file_of_such_a_name_is_written_with_its_folder(areas):
    with pytest.raises(ConfigError, match=r"\./pfs:x"):
        local_target("pfs:x")
    Path("./pfs:x").touch()
    assert expand_paths("./pfs:x") == ["./pfs:x"]


def test_converted_files_are_read_by_readers_and_loader(areas):
    convert("pfs://home/set", labels(100), 4, "p", schema=SCHEMA)
    assert len(list(areas.home.glob("set/p-*-of-00003"))) == 4
    found = [sample["label"].item() for sample in recordio("pfs://home/set/p-*-of-*")()]
    assert sorted(found) == list(range(100))
    again = paddle.reader.creator.RecordIO("pfs://home/set/p-*-of-*")
    assert [sample["label"].item() for sample in again()] == found
    with DataLoader(RecordFiles("pfs://home/set/p-*", SCHEMA), 10, num_workers=1) as loader:
        batches = [batch["label"] for batch in loader]
    assert sorted(np.concatenate(batches).tolist()) == list(range(100))


def test_a_version_and_a_root_are_named_by_shared_paths(areas):
    with pytest.raises(NotFoundError, match=str(areas.public)):
        open_dataset("pfs://public/dataset/x/versions/2026-01-01/g0001", split="train")
