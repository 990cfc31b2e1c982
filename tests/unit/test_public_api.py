"""Public names are exact, documented, light to import, and installable without Airflow."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import trainfeed

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "pyarrow", "pydantic", "confluent_kafka", "hdfs", "airflow", "pandas")
# These need a framework each; tests/peers imports them where the frameworks are.
FRAMEWORKS = {
    f"trainfeed.adapters._{name}" for name in ("accelerate", "jax", "paddle", "tensorflow", "torch")
}
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(trainfeed.__path__, "trainfeed.")
    if info.name not in {"trainfeed.__main__", *FRAMEWORKS}
)
FACES = sorted(
    info.name for info in pkgutil.walk_packages(trainfeed.__path__, "trainfeed.") if info.ispkg
)
SOURCES = sorted(
    path
    for folder in ("include", "operators", "dags", "plugins", "examples")
    for path in (ROOT / folder).rglob("*.py")
)


def test_every_module_is_imported_by_itself_and_says_what_it_has():
    assert len(MODULES) > 100
    assert not [name for name in MODULES if not importlib.import_module(name).__doc__]


def undocumented(value):
    """Yield "" for a public object of ours without a docstring, and each such method of it."""
    if callable(value) and getattr(value, "__module__", "").startswith("trainfeed"):
        if not value.__doc__:
            yield ""
        for method, function in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isfunction(function) and not {method[0], function.__name__[0]} & set("_<"):
                yield from () if inspect.getdoc(getattr(value, method)) else [f".{method}"]


def test_all_of_a_face_is_exact_and_everything_in_it_is_documented():
    assert FACES
    faces = {name: importlib.import_module(name) for name in FACES}
    there = [(name, public) for name, face in faces.items() for public in face.__all__]
    assert not [each for each in there if not hasattr(faces[each[0]], each[1])]
    assert not [
        f"{name}.{public}{part}"
        for name, public in there
        for part in undocumented(getattr(faces[name], public))
    ]


def imported_for_types(text):
    """The names that a face imports in blocks such as `if TYPE_CHECKING`."""
    return {
        alias.asname or alias.name
        for block in ast.parse(text).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_names_that_a_face_imports_on_demand_are_those_of_all():
    faces = [importlib.import_module(name) for name in FACES]
    texts = {face: Path(face.__file__).read_text() for face in faces}
    on_demand = {f: imported_for_types(text) for f, text in texts.items() if "on_demand(" in text}
    assert on_demand
    assert not [face.__name__ for face, names in on_demand.items() if not names]
    assert not [face.__name__ for face, names in on_demand.items() if names - set(face.__all__)]


def test_one_type_is_called_block_reader():
    modules = map(importlib.import_module, MODULES)
    found = {id(module.BlockReader) for module in modules if hasattr(module, "BlockReader")}
    assert found == {id(trainfeed.readers.BlockReader)}


def modules_after(code):
    """The names of the modules that a new interpreter has loaded after some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        env={"PYTHONPATH": str(ROOT / "include")},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_trainfeed_pulls_in_itself_and_a_few_small_modules_of_python():
    loaded = modules_after("import trainfeed")
    assert not loaded & set(HEAVY)
    added = loaded - modules_after("pass")
    assert {name for name in added if name.partition(".")[0] == "trainfeed"} == {"trainfeed"}
    assert {name.partition(".")[0] for name in added} - sys.stdlib_module_names == {"trainfeed"}
    # 30 in Python 3.11, where asyncio alone is 103.
    assert len(added) <= 50


def test_what_is_heavy_comes_with_the_first_name_that_needs_it():
    assert not modules_after("import trainfeed; trainfeed.readers") & set(HEAVY)
    assert modules_after("from trainfeed.readers import open_dataset") >= {"numpy", "pyarrow"}
    loader = modules_after("from trainfeed.loader import DataLoader, RecordFiles")
    assert not loader & {"pyarrow", "pydantic", "croniter", "trainfeed.versions.manifest"}
    assert "pydantic" not in modules_after("from trainfeed.specification import check_name")
    assert "pydantic" in modules_after("from trainfeed.specification import DatasetSpec")


@pytest.mark.parametrize(
    "name",
    [
        "adapters.torch",
        "decorators.shuffle",
        "errors.LoaderError",
        "loader.RecordFiles",
        "readers.recordio",
        "recordio.RecordWriter",
        "samples.Schema",
        "tfrecord.TFRecordReader",
    ],
)
def test_what_documents_name_is_there_after_one_import(name):
    assert name.partition(".")[0] in dir(trainfeed)
    modules_after(f"import trainfeed; trainfeed.{name}")


def test_every_public_name_is_found():
    assert trainfeed.__all__
    assert not [name for name in trainfeed.__all__ if not getattr(trainfeed, name, None)]


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        trainfeed.nothing  # noqa: B018 - asking is the test


def is_private_elsewhere(module, folder):
    """A private module is for its folder and the rooms inside it; all others ask a face."""
    *package, last = module.split(".")
    private = last.startswith("_") and not last.startswith("__")
    ours = package[:1] in (["trainfeed"], ["operators"], ["dags"])
    return private and ours and "/".join(package) not in str(folder.relative_to(ROOT))


def test_private_modules_stay_private():
    assert len(SOURCES) > 100
    assert not [
        f"{path.relative_to(ROOT)}: {module}"
        for path in SOURCES
        for module in imported(path)
        if is_private_elsewhere(module, path.parent)
    ]


def test_data_sets_know_no_airflow_and_no_private_module():
    files = sorted((ROOT / "include/datasets").rglob("*.py"))
    assert files
    assert not [
        f"{path.relative_to(ROOT)}: {module}"
        for path in files
        for module in imported(path)
        if module.startswith("airflow") or "._" in module
    ]


# What docs/authors/adr/0009 names, and nothing else: what is stored is read by formats of our own.
PICKLE = {"pickle", "multiprocessing.connection", "multiprocessing.reduction"}
PICKLING = {
    "include/trainfeed/pipeline/workers/_worker_main.py",
    "include/trainfeed/core/child_processes.py",
    "include/trainfeed/cli/served_commands.py",
    "include/trainfeed/compat/paddle/dataset/common.py",
    "include/trainfeed/core/process_ties.py",
    "include/trainfeed/readers/ahead/forked.py",
    "include/trainfeed/loader/worker_messages.py",
    "include/trainfeed/loader/worker.py",
    "include/trainfeed/samples/pickled.py",
}


def test_pickle_stays_where_it_may_be():
    found = {str(path.relative_to(ROOT)) for path in SOURCES if PICKLE & set(imported(path))}
    assert {path for path in found if not path.startswith("examples/")} == PICKLING


@cache
def imported(path):
    """The modules that a file imports, also within functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found
