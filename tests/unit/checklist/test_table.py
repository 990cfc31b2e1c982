"""Every test that docs/authors/checklist.md names is there, and no row is without one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "authors" / "checklist.md").read_text()
NODES = sorted(set(re.findall(r"`((?:unit|integration|e2e|dags)/[\w/]+\.py(?:::\w+)?)`", DOCUMENT)))
ROWS = re.findall(r"^\| ([SF]\d\d) \| (.+) \| (.+) \| (.+) \|$", DOCUMENT, re.MULTILINE)
EXPECTED = [
    *(f"S{number:02}" for number in (*range(8, 20), 21, *range(25, 52), *range(54, 58))),
    *("S60", "S62", "S63", "S64", "S65", "S67", "S68", "S70", "F31", "F37", "F38"),
]


@cache
def names_in(path):
    """The names of the tests that a file defines, without importing it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            names.add(node.name)
    return names


@pytest.mark.parametrize("node", NODES)
def test_a_named_test_is_there(node):
    name, _, function = node.partition("::")
    names = names_in(ROOT / "tests" / name)
    assert function in names if function else names


def test_every_row_is_there_once_and_in_order():
    assert [row for row, *_ in ROWS] == EXPECTED


@pytest.mark.parametrize("row", ROWS, ids=[row for row, *_ in ROWS])
def test_a_row_names_what_shows_it_and_says_what_came_out(row):
    _, works, shown, result = row
    assert works.strip()
    assert re.search(r"`(unit|integration|e2e|dags)/[\w/]+\.py", shown) or "not shown" in result
    assert re.match(r"(shown|not shown: |partly shown; not shown: )", result)


def test_every_backquoted_path_below_the_repository_is_there():
    for path in re.findall(r"`((?:benchmarks|docs|examples)/[\w/.-]+)`", DOCUMENT):
        assert (ROOT / path).exists(), path
