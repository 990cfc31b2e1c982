"""Cases that take long run in ``make ci`` alone; ``make test`` still goes through every file."""

import ast
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests import slow_cases

ROOT = Path(__file__).parents[2]
REPORT = """
<testsuites><testsuite>
  <testcase classname="tests.unit.test_a" name="test_one[a b]" time="9.5"/>
  <testcase classname="tests.unit.test_a" name="test_one[c]" time="0.1"/>
  <testcase classname="tests.unit.b.test_b.TestAll" name="test_two" time="7"/>
  <testcase classname="tests.unit.b.test_b.TestAll" name="test_three" time="5"/>
  <testcase classname="tests.e2e.test_c" name="test_four" time="60"/>
  <testcase classname="tests.e2e.test_c" name="test_five" time="50"/>
</testsuite></testsuites>
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The names in a file that the program has made from a report."""
    file, report = tmp_path / "slow.txt", tmp_path / "report.xml"
    file.write_text("4.0 tests/unit/test_gone.py::test_x\n9.0 tests/integration/i.py::test_y\n")
    report.write_text(REPORT)
    monkeypatch.setattr(slow_cases, "FILE", file)
    monkeypatch.setattr(sys, "argv", ["slow_cases", str(report)])
    slow_cases.main()
    return slow_cases.slow_cases()


def test_slow_ones_are_named_but_for_the_quickest_of_a_file(written):
    assert written.keys() == {
        "tests/integration/i.py::test_y",  # a folder that was not measured
        "tests/unit/b/test_b.py::TestAll::test_two",
        "tests/unit/test_a.py::test_one[a b]",
    }


def test_a_case_that_alone_finds_a_mistake_is_not_slow():
    (kept, *_) = slow_cases.KEPT
    path = kept.partition("::")[0]
    assert dict(slow_cases._slow({kept: 9.0, f"{path}::test_x": 8.0, f"{path}::test_y": 0.1})) == {
        f"{path}::test_x": 8.0
    }
    assert slow_cases.KEPT.isdisjoint(slow_cases.slow_cases())
    names = {each.rpartition("::")[2] for each in slow_cases.KEPT}
    text = "".join((ROOT / each.partition("::")[0]).read_text() for each in slow_cases.KEPT)
    assert all(f"def {name}(" in text for name in names)


def test_files_that_take_longest_come_first():
    cases = [f"many.py::test_{number}" for number in range(30)]
    cases += ["few.py::test_a", "few.py::test_b", "long.py::test_c"]
    order = slow_cases.longest_first(cases, {"long.py::test_c": 9.0, "gone.py::test_d": 99.0})
    assert sorted(order, key=order.__getitem__) == ["long.py", "many.py", "few.py"]


def test_a_slow_case_is_there():
    names = defaultdict(set)
    for case in slow_cases.slow_cases():
        path, _, name = case.partition("::")
        names[path].add(name.split("[")[0].split("::")[-1])
    missing = [path for path in names if not (ROOT / path).exists()]
    assert not missing
    for path, cases in names.items():
        tree = ast.parse((ROOT / path).read_text())
        there = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        # Tests that a file takes from another one are imported there; those of a state machine of
        # Hypothesis have the name of unittest's.
        there |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        assert cases <= {*there, "runTest"}, path
