"""docs/authors/checklist.md has every row with its state, and the tests that it names exist."""

import ast
import re
from functools import cache
from pathlib import Path

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
    for kind, last in (("S", 70), ("F", 42), ("N", 10), ("X", 20))
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


def is_there(node):
    """Whether a file has the test of that name, or has tests at all."""
    name, _, function = node.partition("::")
    path = ROOT / "tests" / name
    return path.is_file() and bool(function in names_in(path) if function else names_in(path))


def test_a_named_test_is_there():
    assert len(NODES) > 100
    assert not [node for node in NODES if not is_there(node)]


def test_every_row_is_there_once_and_in_order():
    assert [row for row, *_ in ROWS] == EXPECTED


def is_held(asked, held, state):
    """Whether a row says what was asked, its state, and, if it is built, a test that holds it."""
    if state == "not built":
        return bool(asked.strip()) and held == "none"
    known = state == "works" or re.fullmatch(r"part: lacks \S.+", state)
    return bool(asked.strip() and NODE.search(held) and known)


def test_a_row_has_a_state_and_what_holds_it():
    assert not [row for row, *rest in ROWS if not is_held(*rest)]


def test_every_backquoted_path_below_the_repository_is_there():
    paths = re.findall(r"`((?:benchmarks|docs|examples)/[\w/.-]+)`", DOCUMENT)
    assert not [p for p in paths if not (ROOT / p).exists() and not (ROOT / "tests" / p).exists()]
