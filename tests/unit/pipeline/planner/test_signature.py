"""A missing or wrong preprocessing function is found before anything is read."""

import errno
import os
from pathlib import Path

import pytest

from trainfeed.errors import AccessDeniedError, ConfigError

NAMED = "expected def clicks(record, lookups), got "


def define(project, code):
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)


def test_a_missing_function_is_named_with_the_nearest(project):
    define(project, "def click(record, lookups): ...\n\ndef other(): ...\n")
    with pytest.raises(ConfigError, match=r"'clicks' in .*; did you mean 'click'\?"):
        project.build()
    assert not Path(project.env.landing).exists()


def test_an_empty_module_asks_for_the_function(project):
    define(project, "")
    with pytest.raises(ConfigError, match="found none; define it"):
        project.build()


@pytest.mark.parametrize(
    ("code", "got"),
    [
        ("def clicks(record): ...", "def clicks(record) at "),
        ("def clicks(record, lookups, seed): ...", "def clicks(record, lookups, seed) at "),
        ("def clicks(): ...", "def clicks() at "),
        ("def clicks(record, lookups, *, mode): ...", "def clicks(record, lookups, *, mode) at "),
        ("async def clicks(record, lookups): ...", "async def clicks(record, lookups) at "),
    ],
)
def test_a_function_that_cannot_be_called_is_shown_with_its_line(project, code, got):
    define(project, f"import json\n\n\n{code}\n")
    with pytest.raises(ConfigError) as caught:
        project.build()
    message = str(caught.value)
    assert message.startswith(f"{NAMED}{got}")
    assert message.endswith("preprocess.py:4; change it")
    assert not Path(project.env.landing).exists()


def test_a_module_that_is_no_python_is_named_with_the_line(project):
    define(project, "import json\n\ndef clicks(record, lookups:\n")
    with pytest.raises(ConfigError, match=r"preprocess\.py:3: "):
        project.build()


def test_a_module_without_a_line_to_blame_is_named_with_the_first(project):
    define(project, "def clicks(record, lookups): return []\n\0")
    with pytest.raises(ConfigError, match=r"preprocess\.py:1: expected Python, got .*null bytes"):
        project.build()


@pytest.mark.parametrize("name", ["preprocess.py", "other.py"])
def test_a_module_that_is_closed_to_us_is_said_as_such(project, monkeypatch, name):
    closed = project.env.datasets / "clicks" / name
    closed.touch()
    really_open = os.open

    def refuse(path, *options, **named):
        if os.fspath(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return really_open(path, *options, **named)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(AccessDeniedError) as caught:
        project.build()
    assert str(caught.value) == (
        f"{closed}: permission denied; give the account of this process access,"
        " or run as another account"
    )
    assert not Path(project.env.landing).exists()


@pytest.mark.parametrize(
    "code",
    [
        "def clicks(record, lookups): return []",
        "def clicks(record, lookups, *, mode=1): return []",
        "def clicks(*parts): return []",
        "def clicks(record, lookups=None, seed=7): return []",
        "def outer(record, lookups): return []\nclicks = outer",
        "def keep(f): return lambda r, l: []\n@keep\ndef clicks(x): ...",
        "if True:\n    def clicks(record, lookups): return []",
        "from functools import partial\nclicks = partial(lambda a, r, l: [], 1)",
        "class Clicks:\n    def __call__(self, record, lookups): return []\nclicks = Clicks()",
    ],
)
def test_whatever_can_be_called_is_left_alone(project, code):
    define(project, code + "\n")
    assert project.build()["filtered"] == 183
