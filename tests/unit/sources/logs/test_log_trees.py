"""Random trees of folders, against an oracle that walks them: what is read, named, or stops."""

import shutil
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfeed.errors import FormatError, WindowOpenError
from trainfeed.files.stores import Location
from trainfeed.sources import CompleteRule, FolderTree, find_logs, is_bare, list_entries

NOW = datetime(2024, 1, 2, tzinfo=UTC)
RULE = CompleteRule("_SUCCESS", None)
HOURS = ("00", "01", "02")
SHAPES = {
    "hours": FolderTree(None, HOURS),
    "regions": FolderTree(None, ("",), "r=*"),
    "all": FolderTree(None, ("",), "*"),
    "hours of regions": FolderTree(None, HOURS, "r=*"),
    "regions of hours": FolderTree(None, tuple(f"r=*/{hour}" for hour in HOURS)),
}
NAMES = st.sampled_from(["r=a", "r=b", "R=c", "_r=d", ".tmp", *HOURS, "03"])
FILES = st.sampled_from(["part-0", "part-1", "_SUCCESS", "_hidden", "a.tmp"])
PLACES = st.lists(st.tuples(NAMES, st.one_of(st.none(), NAMES), FILES), max_size=14)


def fits(part, name):
    is_hidden = name.startswith((".", "_"))
    return name == part or (not is_hidden and fnmatchcase(name, part))


def expected(top, tree):
    """Walk: the files that are read, the bases, and those without a marker."""
    folders = {p.relative_to(top).as_posix() for p in top.rglob("*") if p.is_dir()} | {"."}
    bases = []
    for base in tree.bases:
        parts = base.split("/") if base else []
        if "*" not in base:
            bases.append(base)
            continue
        # Before ``*`` a name is a folder that is there, behind it one that has to be there.
        bases += [f"{f}/{parts[1]}" for f in sorted(folders) if "/" not in f and fits(parts[0], f)]
    lacking = {base for base in bases if not (top / base / "_SUCCESS").is_file()}
    leaves = []
    for base in bases:
        if not tree.below:
            leaves.append(base)
            continue
        under = [p.name for p in (top / base).iterdir()] if (top / base).is_dir() else []
        names = (n for n in under if fits(tree.below, n) and (top / base / n).is_dir())
        leaves += [f"{base}/{name}".lstrip("/") for name in names]
    files = set()
    for leaf in leaves:
        if (top / leaf).is_dir():
            names = (p.name for p in (top / leaf).iterdir() if p.is_file())
            files |= {f"{leaf}/{n}".lstrip("/") for n in names if n.startswith("part")}
    return files, bases, lacking


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=PLACES, marked=st.booleans())
def test_what_is_read_is_what_a_walk_finds(tmp_path, shape, places, marked):
    top = Path(tmp_path, "top")
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    for first, second, name in places:
        folder = top / first / second if second else top / first
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    tree = SHAPES[shape]
    if marked:
        for base in expected(top, tree)[1]:
            (top / base).mkdir(parents=True, exist_ok=True)
            (top / base / "_SUCCESS").touch()
    files, bases, lacking = expected(top, tree)
    tree = FolderTree(Location.parse(str(top)), tree.bases, tree.below)
    told, is_open = "", False
    try:
        found = find_logs(tree, RULE, NOW)
    except WindowOpenError as error:
        told, is_open = str(error), True
    except FormatError:
        found = None
    assert is_open == bool(lacking or not bases)
    if is_open:
        assert not lacking or any(base in told for base in lacking)
        return
    if found is None:
        return
    assert sorted(found.bases) == sorted(bases)
    assert {file.info.name for file in found.files} == files
    # Every entry of a folder that is looked at has one answer.
    named = {*files, *found.entries.passed_over}
    seen = {
        name for name in found.entries.infos if not any(n.startswith(f"{name}/") for n in named)
    }
    assert seen <= named | set(bases)
    assert list_entries(tree, "_SUCCESS").passed_over == found.entries.passed_over


def test_nothing_there_is_bare_and_an_empty_folder_is_too(tmp_path):
    tree = FolderTree(Location.parse(str(tmp_path / "top")), HOURS)
    assert is_bare(tree)
    (tmp_path / "top/01").mkdir(parents=True)
    assert is_bare(tree)
    (tmp_path / "top/01/part-0").touch()
    assert not is_bare(tree)
