"""User code that imports a name from its old module is refused with the new name."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from trainfeed.errors import ConfigError
from trainfeed.functions import require_current_names
from trainfeed.functions.folder_code import _MOVED, refuse_moved_names


def refusal(code):
    with pytest.raises(ConfigError) as caught:
        refuse_moved_names(Path("preprocess.py"), ast.parse(code))
    return str(caught.value)


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("from trainfeed.build import Reject", "build.Reject", "preprocessing.Reject"),
        ("from trainfeed.build.plain import whole", "build.plain.whole", "preprocessing.whole"),
        ("import trainfeed.build.batch", "build.batch", "preprocessing"),
        ("from trainfeed import build", "build", "preprocessing"),
        ("from trainfeed.spec import DatasetSpec", "spec.DatasetSpec", "specification.DatasetSpec"),
        (
            "from trainfeed.loader import GeneratorLoader",
            "loader.GeneratorLoader",
            "compat.paddle.loading.GeneratorLoader",
        ),
    ],
)
def test_the_message_names_line_old_and_new_name(code, old, new):
    message = refusal(f"import json\n\ndef late():\n    {code}\n")
    assert f"preprocess.py:4 imports trainfeed.{old}, which is trainfeed.{new} now" in message
    assert "docs/operations/upgrading.md" in message


def test_names_that_have_not_moved_pass():
    code = "from trainfeed.preprocessing import Reject\nfrom trainfeed.loader import mix\n"
    refuse_moved_names(Path("preprocess.py"), ast.parse(code + "from . import spec, build\n"))


def test_every_new_name_is_there_and_no_old_one_is():
    for old, new in _MOVED.items():
        assert is_there(new), new
        assert not is_there(old), old


def test_a_training_is_looked_at_in_all_its_files(tmp_path):
    (tmp_path / "train.py").write_text("from . import model\n")
    (tmp_path / "notes.py").write_text("no python at all\n")
    require_current_names(tmp_path)
    (tmp_path / "model.py").write_text("from trainfeed.loader import FeedVariable\n")
    with pytest.raises(ConfigError, match=r"model\.py:1 .*compat\.paddle\.loading\.FeedVariable"):
        require_current_names(tmp_path)


def is_there(name):
    """Folders that hold nothing but compiled leftovers of an earlier checkout do not count."""
    try:
        return import_module(name).__file__ is not None
    except ModuleNotFoundError:
        package, _, last = name.rpartition(".")
        try:
            return hasattr(import_module(package), last)
        except ModuleNotFoundError:
            return False
