"""What a copy names its files: each case is made by ``cp`` as well, and both results are equal."""

import subprocess

import pytest

from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import ConfigError, TrainFeedError
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place
from trainfeed.serving.pfs.posix import LocalTree, MountedTree

HOME = PfsPath("dc1", "home", "alice", ())
LONGEST = "é" * 127 + "x"


def made(base):
    base.mkdir()
    for name in ("a", "b", "x1.rec", "x2.rec", ".x3.rec", LONGEST):
        (base / name).write_text(f"content of {name}")
    for name in ("folder/inner", "folder/empty", "there", "full/folder", "full/a"):
        (base / name).mkdir(parents=True)
    (base / "folder/one").write_text("one")
    (base / "folder/inner/two").write_text("two")
    (base / "full/folder/old").write_text("old")
    (base / "full/folder/one").write_text("older")
    (base / "here").mkdir()
    (base / "here/a").write_text("another")
    return base


def content(base):
    found = {}
    for path in sorted(base.rglob("*")):
        name = str(path.relative_to(base))
        if not path.name.endswith(".tmp"):
            found[name] = path.read_text() if path.is_file() else None
    return found


def place(tree, text):
    names = tuple(name for name in text.split("/") if name not in ("", "."))
    return Place(
        tree, names, is_folder=text.endswith("/"), is_content=text.endswith("/.") or text == "."
    )


def ours(base, tree, sources, target, *, recursive):
    options = CopyOptions(is_recursive=recursive)
    try:
        outcomes = list(
            copy_places(
                [place(tree, each) for each in sources],
                place(tree, target),
                options,
            )
        )
    except TrainFeedError:
        return 1
    return int(any(outcome.error for outcome in outcomes))


def real(base, sources, target, *, recursive):
    command = ["cp", *(["-r"] if recursive else []), *sources, target]
    line = subprocess.list2cmdline(command).replace('"', "")
    done = subprocess.run(["bash", "-c", line], cwd=base, capture_output=True, check=False)
    return int(done.returncode != 0)


CASES = {
    "file to a new name": (["a"], "new"),
    "file onto a file": (["a"], "b"),
    "file into a folder": (["a"], "there"),
    "file into a folder with a slash": (["a"], "there/"),
    "file to a new name with a slash": (["a"], "new/"),
    "file onto a file with a slash": (["a"], "b/"),
    "file over a file in a folder": (["a"], "here"),
    "file over a folder in a folder": (["a"], "full"),
    "file onto itself": (["a"], "a"),
    "file into a missing folder": (["a"], "missing/new"),
    "file with a slash": (["a/"], "new"),
    "missing file": (["missing"], "new"),
    "several into a folder": (["a", "b"], "there"),
    "several to a new name": (["a", "b"], "new"),
    "several onto a file": (["a", "x1.rec"], "b"),
    "several, one is missing": (["a", "missing", "b"], "there"),
    "several of one name": (["a", "here/a"], "there"),
    "folder without -r": (["folder"], "new"),
    "folder without -r beside a file": (["folder", "a"], "there"),
    "pattern into a folder": (["x*.rec"], "there"),
    "pattern of one file to a new name": (["x[1].rec"], "new"),
    "pattern of several to a new name": (["x?.rec"], "new"),
    "pattern with a folder": (["fold*/one"], "there"),
    "pattern without a match": (["y*.rec"], "there"),
    "longest name": ([LONGEST], "there"),
    "folder to a new name": (["-r", "folder"], "new"),
    "folder to a new name with a slash": (["-r", "folder"], "new/"),
    "folder with a slash to a new name": (["-r", "folder/"], "new"),
    "folder into a folder": (["-r", "folder"], "there"),
    "folder with a slash into a folder": (["-r", "folder/"], "there"),
    "folder into a folder that has it": (["-r", "folder"], "full"),
    "what is in a folder, into a folder": (["-r", "folder/."], "there"),
    "what is in a folder, to a new name": (["-r", "folder/."], "new"),
    "folder onto a file": (["-r", "folder"], "a"),
    "folder over a file in a folder": (["-r", "full/a"], "here"),
    "folder and file into a folder": (["-r", "folder", "a"], "there"),
    "folder into itself": (["-r", "folder"], "folder/inner"),
    "file with -r": (["-r", "a"], "new"),
}


@pytest.mark.parametrize(("sources", "target"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("kind", ["local", "mounted"])
def test_files_get_the_names_that_cp_gives(kind, sources, target, tmp_path):
    recursive, sources = sources[0] == "-r", [each for each in sources if each != "-r"]
    expected, found = made(tmp_path / "cp"), made(tmp_path / "ours")
    tree = LocalTree(found) if kind == "local" else MountedTree(found, HOME)
    status = real(expected, sources, target, recursive=recursive)
    assert ours(found, tree, sources, target, recursive=recursive) == status
    after = content(expected)
    if (sources, target) == (["folder"], "folder/inner"):
        # cp makes an empty folder before it notices; here nothing is made.
        after = content(made(tmp_path / "unchanged"))
    assert content(found) == after


def test_a_new_folder_of_shared_storage_is_made_for_a_target_with_a_slash(tmp_path):
    """The seed copies into ``pfs://home/folder/`` without a command that makes it."""
    base = made(tmp_path / "base")
    tree = MountedTree(base, HOME)
    target = Place(tree, ("new",), is_folder=True, makes_folder=True)
    outcomes = list(copy_places([place(tree, "x*.rec")], target, CopyOptions()))
    assert [outcome.verdict for outcome in outcomes] == ["copied", "copied"]
    assert sorted(path.name for path in (base / "new").iterdir()) == ["x1.rec", "x2.rec"]


def test_no_folder_is_made_when_no_source_is_there(tmp_path):
    base = made(tmp_path / "base")
    tree = MountedTree(base, HOME)
    target = Place(tree, ("new",), is_folder=True, makes_folder=True)
    (outcome,) = copy_places([place(tree, "missing")], target, CopyOptions())
    assert outcome.verdict == "failed"
    assert not (base / "new").exists()


def test_links_in_a_folder_are_told_and_the_rest_is_copied(tmp_path):
    base = made(tmp_path / "base")
    (base / "folder/link").symlink_to("one")
    tree = LocalTree(base)
    options = CopyOptions(is_recursive=True)
    (base / "there/folder").mkdir()
    found = {
        outcome.source: outcome.verdict
        for outcome in copy_places([place(tree, "folder")], place(tree, "there"), options)
    }
    assert found == {
        f"{base}/folder/link": "failed",
        f"{base}/folder/one": "copied",
        f"{base}/folder/inner/two": "copied",
    }


def test_a_name_with_a_pattern_character_is_copied_as_it_is(tmp_path):
    base = made(tmp_path / "base")
    (base / "x[1].rec").write_text("literal")
    tree = MountedTree(base, HOME)
    list(copy_places([place(tree, "x[1].rec")], place(tree, "new"), CopyOptions()))
    assert (base / "new").read_text() == "literal"


def test_several_sources_for_a_name_that_is_no_folder_copy_nothing(tmp_path):
    base = made(tmp_path / "base")
    before = content(base)
    tree = MountedTree(base, HOME)
    with pytest.raises(ConfigError, match="several sources"):
        list(copy_places([place(tree, "a"), place(tree, "b")], place(tree, "new"), CopyOptions()))
    assert content(base) == before
