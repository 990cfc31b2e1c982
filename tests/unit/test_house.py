"""The house: a module is what one reads in one sitting; a folder's list is read at a glance."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("dags", "examples", "include", "operators", "plugins", "services")
MOST_LINES = 700
MOST_MODULES = 20
# Folders with more modules, and why each cannot have rooms inside, or has none yet.
LARGE_FOLDERS = {
    "dags": (35, "Airflow finds and parses every file by itself; 16 of them share one work"),
    "services": (22, "one module per service, and the ground that they share"),
}


def modules():
    """Path of a module → its number of lines, for all code but tests, benchmarks and docs."""
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}


def test_no_module_is_longer_than_a_reader_takes_in():
    found = modules()
    assert len(found) > 100
    assert {name: lines for name, lines in found.items() if lines > MOST_LINES} == {}


def test_no_folder_has_more_modules_than_its_list_shows_at_a_glance():
    names = [Path(name) for name in modules()]
    numbers = Counter(
        path.parent.as_posix() for path in names if path.name not in {"__init__.py", "__main__.py"}
    )
    most = {name: LARGE_FOLDERS.get(name, (MOST_MODULES, ""))[0] for name in numbers}
    assert {name: n for name, n in numbers.items() if n > most[name]} == {}
    assert [name for name in LARGE_FOLDERS if numbers[name] <= MOST_MODULES] == []
