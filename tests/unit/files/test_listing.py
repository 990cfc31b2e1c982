"""A folder that may not be listed is an error, and never taken for empty."""

import glob

import pytest

from tests.unit.refusals import refuse
from trainfeed.errors import AccessDeniedError
from trainfeed.files import expand_paths, is_there, listed, matching, walk

NAMES = ["a/x-1", "a/x-2", "a/.x-3", "b/x-4", "b/deep/x-5", ".c/x-6", "x-7", "b/[x]-8"]
PATTERNS = [
    "*", "*/*", "*/x-*", "a/x-?", "a/.x*", ".c/*", "[ab]/x-[14]", "**", "**/x-1", "b/*/x-5", "*/",
    "nothing/*", "x-7/*", "b/[[]x]-8", "a", "a/", "b/../a/*", "./*", "*/deep", "[", "a*/x-1",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("a")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_pattern_matches_what_glob_finds(folder, pattern, is_absolute):
    pattern = f"{folder}/{pattern}" if is_absolute else pattern
    assert matching(pattern) == sorted(glob.glob(pattern))  # noqa: PTH207 (it is the original)


@pytest.mark.parametrize("pattern", ["*/x-*", "b/x-*", "b/*/x-5", "[b]/x-4", "b/x-4"])
def test_a_folder_that_may_hold_a_match_and_may_not_be_listed_is_an_error(
    folder, monkeypatch, pattern
):
    refuse(monkeypatch, folder / "b")
    with pytest.raises(AccessDeniedError, match=r"/b.*permission denied"):
        expand_paths(str(folder / pattern))
    assert len(expand_paths(str(folder / "a/x-*"))) == 2


def test_a_list_is_by_name_and_nothing_where_there_is_no_folder(folder):
    assert [path.name for path in listed(folder / "a")] == [".x-3", "x-1", "x-2"]
    assert listed(folder / "a", "x-[2-9]") == [folder / "a/x-2"]
    assert listed(folder / "nothing") == listed(folder / "x-7") == []


def test_a_walk_follows_no_link_and_passes_over_what_is_hidden_when_asked_to(folder):
    (folder / "b/__pycache__").mkdir()
    found = {str(path.relative_to(folder)) for path in walk(folder)}
    assert found == {*NAMES, "a", "b", ".c", "b/deep", "b/__pycache__", "dangling", "link"}
    shown = {str(path.relative_to(folder)) for path in walk(folder, hidden=False)}
    assert shown == found - {"a/.x-3", ".c", ".c/x-6", "b/__pycache__"}


@pytest.mark.parametrize(
    "ask", [listed, lambda path: list(walk(path)), lambda p: is_there(p / "x")]
)
def test_what_may_not_be_looked_into_is_no_empty_folder(folder, monkeypatch, ask):
    refuse(monkeypatch, folder / "b")
    with pytest.raises(AccessDeniedError):
        ask(folder / "b")


def test_a_name_that_no_file_can_have_is_not_there(folder):
    assert not any(map(is_there, ("a\0b", "x" * 5000, "x-7/y", "nothing/x")))
    assert is_there(folder / "dangling")
