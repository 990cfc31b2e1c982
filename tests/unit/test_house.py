"""The house: a module is what one reads in one sitting, a room is a folder with one face."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("dags", "deploy", "examples", "include", "operators", "plugins", "services")
TRAINFEED = ROOT / "include/trainfeed"
MOST_LINES, MOST_LINES_WITH_REASON = 700, 900
MOST_MODULES = 20
# Modules that are longer, and why they are one.
LONG_MODULES = {
    "include/trainfeed/compat/paddle/loading.py": "code of users names it as the home of its parts",
    "include/trainfeed/errors.py": "the whole tree of errors, which is read as a list",
    "include/trainfeed/files/stores/folder_transfer.py": "one transfer, from source to rename",
    "include/trainfeed/pipeline/check.py": "one stage",
    "include/trainfeed/pipeline/plans.py": "one file on disk, with all of its parts",
    "include/trainfeed/recordio/read.py": "the ways to read records share one walk over chunks",
    "include/trainfeed/serving/pfs/routes.py": "all routes of one server",
}
# Folders with more modules, and why.
LARGE_FOLDERS = {
    "dags": "Airflow finds and parses every file by itself; 16 of them share one work",
    "include/trainfeed/cli": "a module for each group of commands",
    "include/trainfeed/conversion": "a module for each format",
    "include/trainfeed/loader": "light modules of workers apart from heavy ones",
    "include/trainfeed/pipeline": "six stages, and what they share",
    "include/trainfeed/versions": "a module for each decision of people and each kind of files",
}
# Modules behind a face that list their names: users' scripts import them, or they lend names.
WITH_LISTS = {"compat", "errors.py", "files/stores/posix.py"}


def modules():
    """Path of a module → its number of lines, for all code but tests, benchmarks and docs."""
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}


def test_no_module_is_longer_than_a_reader_takes_in():
    found = modules()
    assert len(found) > 100
    long = {name: lines for name, lines in found.items() if lines > MOST_LINES}
    assert long.keys() == LONG_MODULES.keys()
    assert max(long.values()) <= MOST_LINES_WITH_REASON


def test_no_folder_has_more_modules_than_its_list_shows_at_a_glance():
    names = [Path(name) for name in modules()]
    numbers = Counter(
        path.parent.as_posix() for path in names if path.name not in {"__init__.py", "__main__.py"}
    )
    assert {name for name, n in numbers.items() if n > MOST_MODULES} == set(LARGE_FOLDERS)


def test_only_faces_list_their_names():
    listing = [
        path.relative_to(TRAINFEED)
        for path in TRAINFEED.rglob("*.py")
        if path.name != "__init__.py" and "\n__all__ = [" in path.read_text()
    ]
    assert [p for p in listing if not {p.as_posix(), p.parts[0]} & WITH_LISTS] == []


def lent(face):
    """The names that a face has from modules of trainfeed, without those that are modules."""
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(face.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainfeed.")
        for alias in node.names
        if not (TRAINFEED.parent / node.module.replace(".", "/") / f"{alias.name}.py").exists()
        and not (TRAINFEED.parent / node.module.replace(".", "/") / alias.name).is_dir()
    }


def test_no_module_hides_a_name_of_its_face():
    """A module that is imported becomes an attribute of its room, in the place of that name."""
    faces = sorted(TRAINFEED.rglob("__init__.py"))
    assert len(faces) > 10
    assert not [
        f"{face.relative_to(ROOT)}: {name}"
        for face in faces
        for name in lent(face) & {path.stem for path in face.parent.iterdir() if path != face}
    ]
