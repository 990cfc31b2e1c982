"""The house: modules and folders are small enough to be read as a whole."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("dags", "examples", "include", "operators", "plugins", "services")
MOST_LINES = 250
MOST_MODULES = 15
# Folders with more modules, and why each cannot have rooms inside, or has none yet.
LARGE_FOLDERS = {
    "dags": (35, "Airflow finds and parses every file by itself; 16 of them share one work"),
    "include/trainfeed/specification": (
        17,
        "the parts of one file, dataset.yaml, and the ground that all of them check with",
    ),
    "services": (22, "one module per service, and the ground that they share"),
}
# Modules from before the rule, with their lines: each may become shorter, and none longer.
OLDER = {
    "include/trainfeed/cli/file/_file_look.py": 270,
    "include/trainfeed/compat/paddle/loading/_generator.py": 268,
    "include/trainfeed/conversion/_journal.py": 272,
    "include/trainfeed/conversion/formats/_arrow_files.py": 300,
    "include/trainfeed/conversion/formats/_csv_files.py": 262,
    "include/trainfeed/conversion/formats/_tar_members.py": 294,
    "include/trainfeed/conversion/sorting/_run_layout.py": 288,
    "include/trainfeed/conversion/sorting/_sample_spill.py": 260,
    "include/trainfeed/conversion/steps/_stages.py": 268,
    "include/trainfeed/dataset/trainings/_training_marks.py": 254,
    "include/trainfeed/decorators/_xmap.py": 298,
    "include/trainfeed/intervals/_schedule.py": 271,
    "include/trainfeed/loader/_loader.py": 306,
    "include/trainfeed/loader/files/_shard_files.py": 286,
    "include/trainfeed/loader/order/_epoch_order.py": 267,
    "include/trainfeed/loader/windows/_mixture_engine.py": 256,
    "include/trainfeed/pipeline/functions/_batch_function.py": 287,
    "include/trainfeed/pipeline/inputs/_boundary_check.py": 281,
    "include/trainfeed/pipeline/workers/_worker_pool.py": 256,
    "include/trainfeed/recordio/_access.py": 254,
    "include/trainfeed/recordio/_chunk.py": 275,
    "include/trainfeed/recordio/_filling.py": 253,
    "include/trainfeed/recordio/compression/_codecs.py": 255,
    "include/trainfeed/samples/_batch_reader.py": 257,
    "include/trainfeed/samples/_record_layout.py": 267,
    "include/trainfeed/sources/_boundary.py": 266,
    "include/trainfeed/sources/_recorded.py": 266,
    "include/trainfeed/sources/logs/_logs_lines.py": 286,
    "include/trainfeed/storage/_hdfs.py": 260,
    "include/trainfeed/tfrecord/_record_index.py": 282,
    "include/trainfeed/tfrecord/examples/_encode.py": 298,
    "include/trainfeed/tfrecord/examples/_feature_columns.py": 293,
    "include/trainfeed/tfrecord/examples/_parse.py": 297,
    "services/_process.py": 301,
    "services/airflow.py": 266,
}


def modules():
    """Path of a module → its number of lines, for all code but tests, benchmarks and docs."""
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}


def test_no_module_is_longer_than_a_reader_takes_in():
    found = modules()
    assert len(found) > 1000
    long = {name: lines for name, lines in found.items() if lines > OLDER.get(name, MOST_LINES)}
    assert long == {}
    # A module that has become short enough keeps to the rule from then on.
    assert [name for name in OLDER if found.get(name, 0) <= MOST_LINES] == []


def test_no_folder_has_more_modules_than_its_list_shows_at_a_glance():
    names = [Path(name) for name in modules()]
    numbers = Counter(
        path.parent.as_posix() for path in names if path.name not in {"__init__.py", "__main__.py"}
    )
    most = {name: LARGE_FOLDERS.get(name, (MOST_MODULES, ""))[0] for name in numbers}
    assert {name: n for name, n in numbers.items() if n > most[name]} == {}
    assert [name for name in LARGE_FOLDERS if numbers[name] <= MOST_MODULES] == []
