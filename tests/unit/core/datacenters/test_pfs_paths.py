"""Paths of shared storage: two forms, one value, and no way out of an area."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainfeed.core.datacenters import Datacenter, PfsPath, area_folder, local_path
from trainfeed.errors import AccessDeniedError, ConfigError, TrainFeedError

DC = Datacenter("dc1", "alice", Path("/mnt/dc1/home/alice"), Path("/mnt/dc1/public"))
LINE_ENDS = "\u2028\u2029"
NAMES = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/" + LINE_ENDS
    ),
    min_size=1,
    max_size=63,
).filter(lambda name: name not in (".", ".."))
PARTS = st.lists(NAMES, max_size=5)
PREFIXES = st.sampled_from(["pfs://home", "pfs://public", "/pfs/dc1/home/alice", "/pfs/dc1/public"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pfs://home", PfsPath("dc1", "home", "alice", ())),
        ("pfs://home/", PfsPath("dc1", "home", "alice", (), is_folder=True)),
        ("pfs://home/a/b", PfsPath("dc1", "home", "alice", ("a", "b"))),
        ("pfs://home//a/./b/", PfsPath("dc1", "home", "alice", ("a", "b"), is_folder=True)),
        ("pfs://home/a/.", PfsPath("dc1", "home", "alice", ("a",), is_folder=True)),
        ("pfs://public/mnist", PfsPath("dc1", "public", None, ("mnist",))),
        ("pfs://public/home/bob", PfsPath("dc1", "public", None, ("home", "bob"))),
        ("/pfs/dc2/home/bob/x", PfsPath("dc2", "home", "bob", ("x",))),
        ("/pfs/dc2/home/bob", PfsPath("dc2", "home", "bob", ())),
        ("/pfs/dc2/public/x*,y", PfsPath("dc2", "public", None, ("x*,y",))),
        ("pfs://home/%2e%2e/a", PfsPath("dc1", "home", "alice", ("%2e%2e", "a"))),
        ("pfs://home/...", PfsPath("dc1", "home", "alice", ("...",))),
    ],
)
def test_both_forms_are_read(text, expected):
    assert PfsPath.parse(text, datacenter=DC) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "home/a",
        "/home/a",
        "pfs:/home/a",
        "PFS://home/a",
        "pfs://",
        "pfs:///",
        "pfs:///etc/passwd",
        "pfs://homes/a",
        "pfs://alice/a",
        "pfs://../home/a",
        "/pfs",
        "/pfs/",
        "/pfs/dc1",
        "/pfs/dc1/home",
        "/pfs/dc1/home/",
        "/pfs/dc1/common/a",
        "/pfs/../home/alice/a",
        "/pfs/dc1/home/../public",
        "/pfs/dc1/home/.hidden/a",
        "/pfs/-dc/public/a",
        "//pfs/dc1/public/a",
    ],
)
def test_a_text_of_another_form_is_refused(text):
    with pytest.raises(ConfigError, match="shared storage"):
        PfsPath.parse(text, datacenter=DC)


def test_a_short_path_needs_a_data_centre():
    with pytest.raises(ConfigError, match="names its data centre"):
        PfsPath.parse("pfs://home/a")


@given(PREFIXES, PARTS, st.booleans())
@example("pfs://home", [], False)
def test_a_path_reads_back_from_its_text(prefix, parts, is_folder):
    text = "/".join([prefix, *parts]) + ("/" if is_folder else "")
    path = PfsPath.parse(text, datacenter=DC)
    assert path.parts == tuple(parts)
    assert path.is_folder == is_folder
    assert PfsPath.parse(str(path)) == path
    assert PfsPath.parse(path.short(), datacenter=DC) == path


@given(PREFIXES, PARTS, PARTS)
def test_a_path_with_two_dots_anywhere_is_refused(prefix, above, below):
    with pytest.raises(ConfigError, match="stay below their area"):
        PfsPath.parse("/".join([prefix, *above, "..", *below]), datacenter=DC)


CONTROL = st.characters(categories=("Cc",)) | st.sampled_from(LINE_ENDS)


@given(PREFIXES, NAMES, CONTROL, st.text(max_size=3).filter(lambda text: "/" not in text))
@example("pfs://home", "a", "\0", "")
@example("pfs://home", "a", "\n", "")
@example("pfs://home", "a", "\x7f", "b")
def test_a_name_with_a_control_character_is_refused(prefix, before, character, after):
    with pytest.raises(ConfigError, match="without control characters"):
        PfsPath.parse(f"{prefix}/{before}{character}{after}", datacenter=DC)


@given(PREFIXES, st.integers(256, 5000), st.sampled_from("aé漢😀"))
def test_a_name_above_255_bytes_is_refused(prefix, num_bytes, character):
    size = len(character.encode())
    fits, too_long = character * (255 // size), character * -(-num_bytes // size)
    assert PfsPath.parse(f"{prefix}/{fits}", datacenter=DC).name == fits
    with pytest.raises(ConfigError, match="at most 255 bytes") as caught:
        PfsPath.parse(f"{prefix}/{too_long}", datacenter=DC)
    assert len(str(caught.value)) < 4000


@given(PREFIXES, st.characters(categories=("Cs",)))
def test_a_name_that_is_not_utf8_is_refused(prefix, character):
    with pytest.raises(ConfigError, match="UTF-8"):
        PfsPath.parse(f"{prefix}/a{character}", datacenter=DC)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "a\0", "x" * 256])
def test_a_name_that_is_joined_is_checked_as_well(name):
    with pytest.raises(ConfigError):
        PfsPath.parse("pfs://home", datacenter=DC).joined("a", name)


@pytest.mark.parametrize("user", ["", ".", "..", "a/b", "a\0", "a\n", ".a", "x" * 64, "ä"])
def test_a_user_is_one_plain_name(user):
    with pytest.raises(ConfigError):
        PfsPath("dc1", "home", user, ())


def test_an_area_has_a_user_exactly_where_it_is_a_home():
    with pytest.raises(ConfigError):
        PfsPath("dc1", "home", None, ())
    with pytest.raises(ConfigError):
        PfsPath("dc1", "public", "alice", ())
    with pytest.raises(ConfigError):
        PfsPath("dc1", "common", None, ())


@given(st.text(max_size=80) | st.builds("{}/{}".format, PREFIXES, st.text(max_size=80)))
def test_a_path_is_refused_or_lies_below_its_area(text):
    try:
        path = PfsPath.parse(text, datacenter=DC)
        place = local_path(path, DC)
    except TrainFeedError:
        return
    folder = area_folder(path, DC)
    assert folder in (DC.home, DC.public)
    assert place == folder or folder in place.parents
    assert ".." not in place.parts
    assert PfsPath.parse(str(path)) == path


def test_the_home_of_another_user_is_refused():
    with pytest.raises(AccessDeniedError, match="another user's"):
        local_path(PfsPath.parse("/pfs/dc1/home/bob/a"), DC)


def test_a_path_in_another_data_centre_is_refused():
    with pytest.raises(ConfigError, match="in the data centre dc1"):
        local_path(PfsPath.parse("/pfs/dc2/home/alice/a"), DC)


def test_a_path_lies_on_the_mount_of_its_area():
    assert local_path(PfsPath.parse("pfs://home/a/b/", datacenter=DC), DC) == DC.home / "a/b"
    assert local_path(PfsPath.parse("pfs://public", datacenter=DC), DC) == DC.public
