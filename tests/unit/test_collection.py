"""Every test file is collected: a suite that is passed over is green for ever."""

from fnmatch import fnmatch
from pathlib import Path

from tests.conftest import OF_CI

TESTS = Path(__file__).parents[1]


def test_no_folder_of_tests_is_passed_over(pytestconfig):
    ignored = pytestconfig.getini("norecursedirs")
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    assert len(files) > 100
    for path in files:
        assert not [p for part in path.parts for p in ignored if fnmatch(part, p)], path


def test_the_files_that_make_test_leaves_out_are_there():
    """The page of the suites says for each what of it ``make test`` has."""
    page = (TESTS.parent / "docs/authors/suite.md").read_text()
    assert not [name for name in OF_CI if not (TESTS / name).is_file()]
    assert not [name for name in OF_CI if f"`{name}`" not in page]
