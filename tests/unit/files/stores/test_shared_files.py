"""``pfs://`` as a file system: what any other does, and nothing beyond its area."""

import pytest

from tests.unit.core.datacenters.conftest import areas
from tests.unit.files.stores.file_system_behaviour import RenamingBehaviour, put
from trainfeed.errors import AccessDeniedError, ConfigError
from trainfeed.files.stores import Location

__all__ = ["areas"]


class TestSharedFileSystem(RenamingBehaviour):
    @pytest.fixture
    def folder(self, areas):  # noqa: ARG002 (the mounts)
        return Location.parse("pfs://home")


def test_a_location_is_read_back_from_its_uri(areas):
    place = Location.parse("pfs://home//logs/") / "a"
    assert place.uri == "pfs://home/logs/a"
    assert Location.parse(place.uri) == place
    assert place.path == f"{areas.home}/logs/a"


def test_an_area_has_no_name_and_no_folder_above_it(areas):
    for area in ("pfs://home", "pfs://public/"):
        place = Location.parse(area)
        assert (place.name, place.parent) == ("", place)
        assert ((place / "a").name, (place / "a").parent) == ("a", place)


WRITES = {
    "open_write": lambda place: place.open_write(),
    "write_atomic": lambda place: place.write_atomic(lambda _: None),
    "create_exclusive": lambda place: place.create_exclusive(b""),
    "make_dir": lambda place: place.make_dir(),
    "rename": lambda place: place.renaming("a test").rename(place.parent / "new"),
    "replace": lambda place: place.renaming("a test").replace(place.parent / "new"),
    "delete": lambda place: place.delete(),
    "delete all": lambda place: place.delete(recursive=True),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_public_area_is_read_and_never_written(areas, write):
    (areas.public / "old").write_text("old")
    public = Location.parse("pfs://public")
    assert (public / "old").read_bytes() == b"old"
    with pytest.raises(AccessDeniedError, match="for reading"):
        write(public / "old")
    assert [path.read_text() for path in areas.public.iterdir()] == ["old"]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_link_that_leads_out_is_not_written_through(areas, write, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/old").write_text("old")
    (areas.home / "way").symlink_to(tmp_path / "other")
    way = Location.parse("pfs://home/way")
    with pytest.raises(AccessDeniedError, match="a link leads"):
        write(way / "old")
    assert [path.read_text() for path in (tmp_path / "other").iterdir()] == ["old"]


@pytest.mark.parametrize("read", ["open_read", "stat", "list", "exists", "checksum", "is_open"])
def test_a_link_that_leads_out_is_not_read_through(areas, read, tmp_path):
    (areas.home / "way").symlink_to(tmp_path)
    with pytest.raises(AccessDeniedError, match="a link leads"):
        getattr(Location.parse("pfs://home/way"), read)()


def test_a_link_within_the_area_is_followed(areas):
    home = Location.parse("pfs://home")
    put(home / "a", b"a")
    (areas.home / "b").symlink_to("a")
    assert (home / "b").read_bytes() == b"a"


def test_the_area_itself_and_other_folders_are_not_deleted(areas, tmp_path):
    (areas.home / "a").touch()
    fs = Location.parse("pfs://home").fs
    for path in ("/", str(areas.home), f"{areas.home}/", str(tmp_path), str(areas.home) + "2"):
        for recursive in (False, True):
            with pytest.raises(ConfigError):
                fs.delete(path, recursive=recursive)
    assert (areas.home / "a").exists()


def test_an_area_that_is_not_mounted_is_no_empty_folder(areas):
    areas.home.rmdir()
    home = Location.parse("pfs://home")
    for ask in (home.exists, home.list, home.make_dir):
        with pytest.raises(ConfigError, match="trainfeed pfs cp"):
            ask()
    assert not areas.home.exists()


@pytest.mark.parametrize("uri", ["pfs://home/../a", "pfs://common/a", "pfs:/home/a", "pfs://"])
def test_another_place_is_refused(areas, uri):
    with pytest.raises(ConfigError):
        Location.parse(uri)
