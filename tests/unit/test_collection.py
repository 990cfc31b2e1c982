"""Every test file is collected: a suite that is passed over is green for ever."""

from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_folder_of_tests_is_passed_over(pytestconfig):
    ignored = pytestconfig.getini("norecursedirs")
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    assert len(files) > 100
    for path in files:
        assert not [p for part in path.parts for p in ignored if fnmatch(part, p)], path
