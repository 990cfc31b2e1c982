"""``trainfeed pfs …`` on a mount: results, messages and exit status."""

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from trainfeed.core.canonical_json import dumps
from trainfeed.files.stores.folder_manifest import FolderFile, FolderManifest
from trainfeed.serving.pfs.places import Places
from trainfeed.serving.pfs.tree import CHUNK_BYTES, SourceState, unfinished_file_name


def names(folder):
    return sorted(path.name for path in folder.iterdir())


class TestCopies:
    def test_files_are_copied_up_and_down(self, pfs, home):
        Path("a").write_bytes(os.urandom(CHUNK_BYTES + 5))
        Path("b").write_bytes(b"small")
        assert pfs("cp", "a", "b", "pfs://home/")[0] == 0
        assert names(home) == ["a", "b"]
        assert pfs("cp", "pfs://home/a", "down")[:2] == (
            0,
            f"copied 1 files, sent {CHUNK_BYTES + 5} bytes\n",
        )
        assert Path("down").read_bytes() == Path("a").read_bytes()

    def test_the_commands_of_the_seed_run_as_they_stand(self, pfs, home):
        for number in range(3):
            Path(f"random_images-0000{number}-of-00002").write_text(str(number))
        assert pfs("cp", "random_images-*-of-*", "pfs://home/")[0] == 0
        assert pfs("cp", "random_images-*-of-*", "pfs://home/folder/")[0] == 0
        assert names(home / "folder") == names(Path())

    def test_a_pattern_on_shared_storage_is_expanded(self, pfs, home):
        for name in ("x1", "x2", "y"):
            (home / name).write_text(name)
        assert pfs("cp", "pfs://home/x*", ".")[0] == 0
        assert names(Path()) == ["x1", "x2"]

    def test_a_second_copy_sends_nothing(self, pfs):
        Path("a").write_bytes(bytes(CHUNK_BYTES * 2))
        Path("b").write_bytes(b"small")
        pfs("cp", "a", "b", "pfs://home")
        status, output, _ = pfs("cp", "--json", "a", "b", "pfs://home")
        assert (status, json.loads(output)["sent_bytes"], json.loads(output)["equal"]) == (0, 0, 2)

    def test_a_file_that_fails_is_one_line_and_status_1_and_the_others_are_copied(self, pfs, home):
        Path("a").write_text("a")
        status, output, messages = pfs("cp", "missing", "a", "pfs://home/")
        assert (status, names(home)) == (1, ["a"])
        assert messages.splitlines() == ["NotFoundError: missing: no such file or directory"]
        assert "1 failed" in output

    def test_no_clobber_keeps_other_bytes(self, pfs, home):
        (home / "a").write_text("old")
        Path("a").write_text("new")
        assert pfs("cp", "-n", "a", "pfs://home")[0] == 1
        assert (home / "a").read_text() == "old"

    def test_json_has_each_file(self, pfs):
        Path("a").write_bytes(b"abc")
        report = json.loads(pfs("cp", "--json", "a", "pfs://home/b")[1])
        assert report["files"] == [
            {
                "source": "a",
                "target": "pfs://home/b",
                "verdict": "copied",
                "num_bytes": 3,
                "sent_bytes": 3,
                "error": None,
            }
        ]

    @pytest.mark.parametrize("rate", ["0", "-1", "x", "10 MB", "1.5MiB", ""])
    def test_a_rate_that_is_none_is_refused(self, pfs, rate):
        Path("a").write_text("a")
        status, _, messages = pfs("cp", f"--limit-rate={rate}", "a", "pfs://home")
        assert (status, "bytes in a second" in messages) == (2, True)

    def test_local_copies_are_left_to_cp(self, pfs):
        Path("a").write_text("a")
        assert pfs("cp", "a", "b")[0] == 2
        assert names(Path()) == ["a"]

    def test_nothing_is_written_to_a_folder_that_its_mount_has_left(self, pfs, home):
        Path("a").write_text("a")
        config = Path(os.environ["HOME"], ".trainfeed/config")
        config.write_text(config.read_text().replace("true", "false"))
        status, output, messages = pfs("cp", "a", "pfs://home/")
        assert (status, output, names(home)) == (2, "", [])
        assert f"a mount of the data centre dc1 at {home}, or an endpoint" in messages
        assert "local: true" in messages

    def test_nothing_is_written_to_the_public_area(self, pfs):
        Path("a").write_text("a")
        status, _, messages = pfs("cp", "a", "pfs://public/a")
        assert (status, "read only" in messages) == (1, True)


class TestTwoDataCentres:
    @pytest.fixture
    def other(self, home, tmp_path):
        """The home of the same user in another data centre, which is not the current one."""
        folder = tmp_path / "mount2/home/alice"
        folder.mkdir(parents=True)
        centres = [
            {"name": name, "username": "alice", "mount": str(mount), "local": True}
            for name, mount in (("dc1", home.parent.parent), ("dc2", tmp_path / "mount2"))
        ]
        Path(os.environ["HOME"], ".trainfeed/config").write_text(
            json.dumps({"datacenters": centres, "current-datacenter": "dc1"})
        )
        return folder

    def test_a_file_keeps_its_path_in_the_other_one(self, pfs, home, other):
        (home / "a").write_text("a")
        status, output, messages = pfs("cp", "--json", "pfs://home/a", "/pfs/dc2/home/alice/a")
        assert (status, messages, (other / "a").read_text()) == (0, "", "a")
        (file,) = json.loads(output)["files"]
        assert (file["source"], file["target"]) == ("pfs://home/a", "/pfs/dc2/home/alice/a")
        assert pfs("cp", "-r", "/pfs/dc2/home/alice/", "pfs://home/a.dir")[0] == 0
        assert (home / "a.dir/a").read_text() == "a"

    def test_copies_of_one_name_do_not_share_what_an_earlier_try_has_left(self, home, other):
        with Places() as places:
            one, two = places.place("pfs://home/a"), places.place("/pfs/dc2/home/alice/a")
        for folder in (home, other):
            (folder / "a").write_text("a")
        identities = {each.tree.open_source(each.parts).state.identity for each in (one, two)}
        assert len(identities) == 2

    @pytest.mark.usefixtures("other")
    def test_messages_name_the_other_one(self, pfs, home):
        (home / "a").write_text("a")
        status, _, messages = pfs("mv", "pfs://home/a", "/pfs/dc2/home/alice/a")
        assert (status, "got pfs://home/a and /pfs/dc2/home/alice/a;" in messages) == (2, True)
        assert pfs("ls", "/pfs/dc2/home/alice/x")[2].startswith(
            "NotFoundError: /pfs/dc2/home/alice/x: "
        )

    def test_a_copy_onto_itself_is_refused(self, pfs, other):
        (other / "a").write_text("a")
        status, _, messages = pfs("cp", "/pfs/dc2/home/alice/a", "/pfs/dc2/home/alice/a")
        assert (status, "are the same" in messages) == (1, True)


BAD = {
    "pfs://home/../bob/secret": 2,
    "pfs://home/a/../../bob/secret": 2,
    "pfs://home/..": 2,
    "pfs://home/a\nb": 2,
    "pfs://home/a\x1b[2J": 2,
    "pfs://home/" + "a" * 256: 2,
    "pfs://home/" + "é" * 128: 2,
    "/pfs/dc1/home/bob/secret": 1,
    "/pfs/dc2/home/alice/a": 2,
    "/pfs/dc1/home/alice/../bob/secret": 2,
    "/pfs/dc1/other/a": 2,
    "pfs://secret": 2,
    "pfs:/home/a": 2,
    "PFS://home/a": 2,
    "pfs://home/link/secret": 1,
    "pfs://home/file": 1,
}
CALLS = {
    "upload": ("cp", "a", "BAD"),
    "download": ("cp", "BAD", "down"),
    "rm": ("rm", "BAD/x"),
    "mkdir": ("mkdir", "BAD/x"),
    "mv from": ("mv", "BAD", "pfs://home/new"),
    "mv to": ("mv", "pfs://home/mine", "BAD/x"),
    "ls": ("ls", "BAD/"),
    "find": ("find", "BAD/x"),
    "stat": ("stat", "BAD/x"),
    "du": ("du", "BAD/x"),
    "verify": ("verify", "a", "BAD"),
}


# A link has a name of its own, which may be listed and renamed.
GIVEN = [
    (bad, name)
    for number, bad in enumerate(BAD)
    for place, name in enumerate(CALLS)
    if (place < 2 or (place + number) % 4 == 0)
    and not (bad == "pfs://home/file" and name in ("ls", "mv from", "mv to"))
]


@pytest.mark.parametrize(("bad", "call"), GIVEN, ids=ascii)
def test_bad_input_is_one_message_and_changes_nothing(pfs, home, call, bad):
    """Every input as source and target of a copy, and as argument of some other commands."""
    (home / "link").symlink_to(home.parent / "bob")
    (home / "file").symlink_to(home.parent / "bob/secret")
    (home / "mine").write_text("mine")
    Path("a").write_text("a")
    status, output, messages = pfs(*(part.replace("BAD", bad) for part in CALLS[call]))
    assert status == BAD[bad] or (status, bad[-5:]) == (2, "/file")
    assert len(messages.splitlines()) == 1
    assert "secret\n" not in output
    assert "\x1b" not in messages
    assert (names(home), names(home.parent / "bob")) == (["file", "link", "mine"], ["secret"])
    assert (names(Path()), (home / "mine").read_text()) == (["a"], "mine")


def test_an_argument_with_nul_cannot_be_given_and_a_call_with_one_is_refused(pfs):
    assert pfs("ls", "pfs://home/a\0b")[0] == 2
    assert pfs("cp", "a\0b", "pfs://home/")[0] == 2


class TestLooks:
    @pytest.fixture(autouse=True)
    def files(self, home):
        (home / "folder/inner").mkdir(parents=True)
        (home / "folder/a.rec").write_bytes(b"abc")
        (home / "folder/inner/b.rec").write_bytes(b"abcde")
        (home / ".hidden").write_bytes(b"x")

    def test_ls_lists_a_folder_as_json_and_as_a_table(self, pfs):
        rows = json.loads(pfs("ls", "--json", "pfs://home/folder")[1])
        assert [(row["path"], row["kind"], row["bytes"]) for row in rows] == [
            ("pfs://home/folder/a.rec", "file", 3),
            ("pfs://home/folder/inner", "folder", 0),
        ]
        assert "pfs://home/folder/a.rec" in pfs("ls", "pfs://home/folder")[1]

    def test_ls_shows_hidden_names_only_if_they_are_wanted(self, pfs):
        assert ".hidden" not in pfs("ls")[1]
        assert ".hidden" in pfs("ls", "-a")[1]

    def test_ls_of_a_folder_with_all_below_it(self, pfs):
        rows = json.loads(pfs("ls", "-r", "--json")[1])
        assert [row["path"] for row in rows] == [
            "pfs://home/folder",
            "pfs://home/folder/a.rec",
            "pfs://home/folder/inner",
            "pfs://home/folder/inner/b.rec",
        ]

    def test_a_path_without_a_match_is_status_1_and_the_others_are_listed(self, pfs):
        status, output, messages = pfs("ls", "pfs://home/none*", "pfs://home/fold*")
        assert (status, "a.rec" in output, "matches" in messages) == (1, True, True)

    def test_find_prints_one_path_in_a_line(self, pfs):
        status, output, _ = pfs("find", "--name", "*.rec", "--type", "f")
        assert (status, output.splitlines()) == (
            0,
            ["pfs://home/folder/a.rec", "pfs://home/folder/inner/b.rec"],
        )
        assert pfs("find", "--type", "x")[0] == 2

    def test_stat_shows_one_entry_and_its_digest(self, pfs):
        (row,) = json.loads(pfs("stat", "--digest", "--json", "pfs://home/folder/a.rec")[1])
        whole = hashlib.sha256(hashlib.sha256(b"abc").digest()).hexdigest()
        assert (row["bytes"], row["sha256_of_chunks"]) == (3, whole)

    def test_du_sums_files_and_unfinished_copies(self, pfs, home):
        state = SourceState(10, 0, "0" * 32)
        (home / "folder" / unfinished_file_name("c", state)).write_bytes(b"1234567")
        (row,) = json.loads(pfs("du", "--json")[1])
        assert row == {
            "path": "pfs://home",
            "bytes": 16,
            "files": 4,
            "folders": 3,
            "unfinished bytes": 7,
        }

    def test_a_name_that_is_refused_is_one_line_and_everything_else_is_listed(self, pfs, home):
        (home / "folder/a\nb").mkdir()
        (home / "folder/a\nb/inside").write_text("inside")
        (home / "folder/Icon\r").write_text("icon")
        shown = "pfs://home/folder/a\\nb"
        status, output, messages = pfs("find")
        assert (status, messages.startswith(f"ConfigError: {shown}: ")) == (1, True)
        assert output.splitlines() == [
            "pfs://home",
            "pfs://home/.hidden",
            "pfs://home/folder",
            "pfs://home/folder/Icon\\r",
            shown,
            "pfs://home/folder/a.rec",
            "pfs://home/folder/inner",
            "pfs://home/folder/inner/b.rec",
        ]
        status, output, _ = pfs("du", "--json")
        (row,) = json.loads(output)
        assert (status, row["bytes"], row["files"], row["folders"]) == (1, 13, 4, 4)
        assert shown in pfs("ls", "-r")[1]
        status, output, _ = pfs("ls", "pfs://home/folder")
        assert (status, shown in output) == (0, True)

    def test_what_fails_among_the_matches_of_a_pattern_does_not_hide_the_others(self, pfs, home):
        (home / "a\nb").mkdir()
        status, output, messages = pfs("du", "--json", "pfs://home/*")
        assert (status, len(messages.splitlines()) > 0) == (1, True)
        assert [row["path"] for row in json.loads(output)] == ["pfs://home/folder"]


class TestChanges:
    def test_rm_needs_r_for_a_folder_and_never_takes_the_home(self, pfs, home):
        (home / "folder/inner").mkdir(parents=True)
        assert pfs("rm", "pfs://home/folder")[0] == 1
        assert pfs("rm", "-r", "pfs://home")[0] == 2 or names(home) == ["folder"]
        assert pfs("rm", "-r", "pfs://home/")[0] == 1
        assert names(home) == ["folder"]
        assert pfs("rm", "-r", "pfs://home/fold*")[0] == 0
        assert names(home) == []

    def test_rm_removes_what_dead_copies_have_left_after_three_days(self, pfs, home):
        state = SourceState(10, 0, "0" * 32)
        old, young = (home / unfinished_file_name(name, state) for name in ("old", "young"))
        folder = home / f".pfs-{'e' * 12}-1-1.{'0' * 32}.tmp"
        folder.mkdir()
        for path in (old, young, folder / "x", home / "kept"):
            path.write_text("x")
        for path in (old, folder):
            os.utime(path, (0, time.time() - 4 * 24 * 3600))
        assert pfs("rm", "--unfinished", "pfs://home")[:2] == (0, "removed 2 unfinished copies\n")
        assert names(home) == sorted([young.name, "kept"])

    def test_rm_of_unfinished_copies_goes_on_behind_a_name_that_is_refused(self, pfs, home):
        old = home / "z" / unfinished_file_name("old", SourceState(10, 0, "0" * 32))
        for folder in (home / "a\nb", old.parent):
            folder.mkdir()
        old.write_text("x")
        os.utime(old, (0, 0))
        status, output, _ = pfs("rm", "--unfinished", "pfs://home")
        assert (status, output) == (1, "removed 1 unfinished copies\n")
        assert names(home) == ["a\nb", "z"]
        assert names(old.parent) == []

    def test_mkdir_makes_folders_above_and_keeps_a_folder_that_is_there(self, pfs, home):
        assert pfs("mkdir", "pfs://home/a/b")[0] == 0
        assert pfs("mkdir", "pfs://home/a/b")[0] == 0
        (home / "file").write_text("x")
        assert pfs("mkdir", "pfs://home/file")[0] == 1

    def test_mv_renames_and_replaces_only_if_asked(self, pfs, home):
        (home / "folder").mkdir()
        for name in "ab":
            (home / name).write_text(name)
        assert pfs("mv", "pfs://home/a", "pfs://home/b")[0] == 1
        assert pfs("mv", "--replace", "pfs://home/a", "pfs://home/b")[0] == 0
        assert pfs("mv", "pfs://home/b", "pfs://home/folder")[0] == 0
        assert (home / "folder/b").read_text() == "a"
        assert pfs("mv", "pfs://home/folder", "pfs://public/folder")[0] == 2
        assert pfs("mv", "pfs://home", "pfs://home/x")[0] in (1, 2)


class TestVerify:
    def test_equal_folders_are_status_0_and_different_ones_3(self, pfs, home):
        Path("folder/inner").mkdir(parents=True)
        Path("folder/a").write_bytes(os.urandom(CHUNK_BYTES + 1))
        Path("folder/inner/b").write_text("b")
        pfs("cp", "-r", "folder", "pfs://home")
        assert pfs("verify", "folder", "pfs://home/folder")[0] == 0
        with (home / "folder/a").open("r+b") as file:
            file.seek(CHUNK_BYTES)
            file.write(b"!" if Path("folder/a").read_bytes()[-1:] != b"!" else b"?")
        (home / "folder/more").write_text("x")
        (home / "folder/inner/b").write_text("longer")
        status, output, _ = pfs("verify", "--json", "folder", "pfs://home/folder")
        differences = json.loads(output)["differences"]
        assert (status, {each["name"]: each["what"] for each in differences}) == (
            3,
            {
                "a": "1 of 2 chunks differ, first [1]",
                "inner/b": "1 and 6 bytes",
                "more": "only in pfs://home/folder",
            },
        )

    def test_a_folder_is_compared_with_the_list_of_its_transfer(self, pfs, home):
        (home / "folder").mkdir()
        (home / "folder/a").write_bytes(b"abc")
        digest = hashlib.sha256(b"abc").hexdigest()
        manifest = FolderManifest.of([FolderFile("a", 3, digest)])
        (home / "folder/TRANSFER.json").write_bytes(manifest.to_bytes())
        assert pfs("verify", "pfs://home/folder")[0] == 0
        (home / "folder/more").write_text("x")
        assert pfs("verify", "pfs://home/folder")[0] == 3
        (home / "folder/more").unlink()
        (home / "folder/a").write_bytes(b"abd")
        assert pfs("verify", "pfs://home/folder")[0] == 3
        (home / "folder/a").unlink()
        assert pfs("verify", "pfs://home/folder")[0] == 3

    def test_a_folder_without_a_list_and_a_damaged_list_are_told(self, pfs, home):
        (home / "folder").mkdir()
        assert pfs("verify", "pfs://home/folder")[0] == 1
        (home / "folder/MANIFEST.json").write_bytes(dumps({}))
        (home / "folder/MANIFEST.sha256").write_text("0" * 64 + "\n")
        assert pfs("verify", "pfs://home/folder")[0] == 3

    def test_a_file_and_a_folder_cannot_be_compared(self, pfs, home):
        (home / "folder").mkdir()
        Path("a").write_text("a")
        assert pfs("verify", "a", "pfs://home/folder")[0] == 2
