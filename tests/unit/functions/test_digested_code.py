"""What is digested is what runs: imports get the texts that were read, not those of files since."""

import inspect
import os
import traceback

import pytest

from tests.unit.pipeline.clicks import SPEC
from trainfeed.errors import CodeChangedError
from trainfeed.functions import (
    code_texts,
    digest_of_texts,
    load_function,
    load_training_function,
    training_texts,
)
from trainfeed.specification import load as _load
from trainfeed.specification import load_spec
from trainfeed.training.jobs.kubernetes.launcher import JobCode

FILES = {
    "preprocess.py": """
def clicks(record, lookups):
    from . import factor
    from .parts import more
    from .plain.deep import term
    return factor.FACTOR, more.one(), term.TERM


def newer(record, lookups):
    from . import later
    return later.FACTOR


def failing(record, lookups):
    raise ValueError("digested line")
""",
    "factor.py": "FACTOR = 1\n",
    "parts/__init__.py": "",
    "parts/more.py": "from ..factor import FACTOR\n\n\ndef one():\n    return FACTOR\n",
    "plain/deep/term.py": "from ...factor import FACTOR as TERM\n",
}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "clicks"
    for name, text in {"dataset.yaml": SPEC, **FILES}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def of_preprocessing(folder, name):
    spec = load_spec(folder)
    return load_function(spec, f"preprocess:{name}", code_texts(spec))


def of_training(folder, name):
    entry = f"preprocess:{name}"
    return load_training_function(folder, "clicks", entry, training_texts(folder))


both = pytest.mark.parametrize("loaded", [of_preprocessing, of_training])


@both
def test_a_late_import_runs_the_text_that_was_digested(folder, loaded):
    function = loaded(folder, "clicks")
    (folder / "factor.py").write_text("FACTOR = 1000\n")
    (folder / "parts/more.py").unlink()
    (folder / "plain/deep/term.py").write_text("this is no Python")
    assert function(None, {}) == (1, 1, 1)


@both
def test_a_module_that_comes_after_the_digest_is_refused(folder, loaded):
    function = loaded(folder, "newer")
    (folder / "later.py").write_text("FACTOR = 1000\n")
    with pytest.raises(ModuleNotFoundError, match=r"clicks/later is not .* code digest covers"):
        function(None, {})
    assert loaded(folder, "newer")(None, {}) == 1000


@both
def test_tracebacks_show_the_lines_that_ran(folder, loaded):
    function = loaded(folder, "failing")
    (folder / "preprocess.py").write_text("\n# another file\n" * 20)
    with pytest.raises(ValueError, match="digested line") as raised:
        function(None, {})
    shown = "".join(traceback.format_exception(raised.value))
    assert 'raise ValueError("digested line")' in shown
    assert "digested line" in inspect.getsource(function)


@both
def test_a_changed_file_of_the_same_size_and_time_is_loaded_again(folder, loaded):
    path = folder / "factor.py"
    before = path.stat()
    assert loaded(folder, "clicks")(None, {})[0] == 1
    path.write_text("FACTOR = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert loaded(folder, "clicks")(None, {}) == (2, 2, 2)


def test_code_that_is_shipped_is_the_code_that_was_digested(folder, monkeypatch):
    digest = digest_of_texts(training_texts(folder))
    assert JobCode.read(folder, digest).files == training_texts(folder)
    real, seen = _load.read_plain, set()

    def deployed_and_rolled_back(path, **options):
        is_first = path not in seen
        seen.add(path)
        return b"FACTOR = 1000\n" if is_first else real(path, **options)

    monkeypatch.setattr(_load, "read_plain", deployed_and_rolled_back)
    with pytest.raises(CodeChangedError):
        JobCode.read(folder, digest)
