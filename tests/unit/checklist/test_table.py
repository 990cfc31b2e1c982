"""docs/authors/checklist.md has every row with its state, and the tests that it names exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/authors/checklist.md").read_text()
SUITES = "unit|integration|e2e|dags|model|docs"
NODE = re.compile(rf"`((?:{SUITES})/[\w/]+\.py(?:::\w+)?)`")
NODES = sorted(set(NODE.findall(DOCUMENT)))
ROWS = re.findall(r"^\| ([A-Z]\d\d) \| (.+) \| (.+) \| (.+) \|$", DOCUMENT, re.MULTILINE)
# The cases that tests of file systems inherit.
BEHAVIOUR = "file_system_behaviour"
EXPECTED = [
    f"{kind}{number:02}"
    for kind, last in (("S", 70), ("F", 42), ("N", 10), ("X", 12))
    for number in range(1, last + 1)
]


@cache
def names_in(path):
    """The names of the tests that a file defines or inherits, without importing it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            names.add(node.name)
        if (
            isinstance(node, ast.ImportFrom)
            and node.module == "tests.unit.files.stores." + BEHAVIOUR
        ):
            names |= names_in(ROOT / "tests/unit/files/stores" / f"{BEHAVIOUR}.py")
    return names


@pytest.mark.parametrize("node", NODES)
def test_a_named_test_is_there(node):
    name, _, function = node.partition("::")
    names = names_in(ROOT / "tests" / name)
    assert function in names if function else names


def test_every_row_is_there_once_and_in_order():
    assert [row for row, *_ in ROWS] == EXPECTED


@pytest.mark.parametrize("row", ROWS, ids=[row for row, *_ in ROWS])
def test_a_row_has_a_state_and_what_holds_it(row):
    _, asked, held, state = row
    assert asked.strip()
    if state == "not built":
        assert held == "none"
    else:
        assert NODE.search(held)
        assert state == "works" or re.fullmatch(r"part: lacks \S.+", state)


def test_every_backquoted_path_below_the_repository_is_there():
    for path in re.findall(r"`((?:benchmarks|docs|examples)/[\w/.-]+)`", DOCUMENT):
        assert (ROOT / path).exists() or (ROOT / "tests" / path).exists(), path
