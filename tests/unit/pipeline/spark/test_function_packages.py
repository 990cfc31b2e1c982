"""Packages that a function imports, by the digests of their files, in made environments."""

from __future__ import annotations

import base64
import hashlib
import importlib
import socket
import sys

import pytest

from trainfeed.errors import ConfigError
from trainfeed.pipeline.spark import shipment as function_packages
from trainfeed.pipeline.spark.shipment import FunctionPackages
from trainfeed.specification import load_spec

MATH = "VALUE = 1\n"


def listed(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data.encode()).digest()).decode()
    return f"{path},sha256={digest.rstrip('=')},{len(data)}\n"


def install(place, name, text=MATH, version="1.0", requires=(), own=""):
    """Install a package of one module; ``own`` is what only this environment has."""
    info = place / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (place / f"{name}.py").write_text(text)
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n{needs}")
    lines = [
        listed(f"{name}.py", text),
        listed(f"{info.name}/INSTALLER", own),
        listed("../../../bin/run", f"#!{place}"),
        f"__pycache__/{name}.pyc,,\n",
        f"{info.name}/RECORD,,\n",
    ]
    (info / "RECORD").write_text("".join(lines if own else reversed(lines)))


@pytest.fixture
def enter(tmp_path, monkeypatch):
    """Go into an environment with packages: its name, then name → how ``install`` makes it."""
    outside = list(sys.path)

    def go(environment, **packages):
        place = tmp_path / environment
        for name, how in packages.items():
            install(place, name, **how)
        monkeypatch.setattr(sys, "path", [str(place), *outside])
        monkeypatch.setattr(function_packages, "_SEEN", set())
        importlib.invalidate_caches()
        return place

    return go


@pytest.fixture
def spec(project):
    project.edit("\ndef clicks", "\nimport heavymath\n\ndef clicks", "preprocess.py")
    return load_spec(project.spec.folder)


@pytest.fixture
def submitted(enter, spec):
    """The packages as the submitting process has them."""
    enter(
        "here",
        heavymath={"requires": ["lightmath>=1", "windows; sys_platform == 'win32'"]},
        lightmath={"requires": ["heavymath"]},
    )
    return FunctionPackages.of(spec)


def test_what_a_function_imports_is_named_with_what_that_requires(submitted):
    assert "heavymath" in submitted.imported
    assert list(submitted.required) == ["lightmath"]
    assert "trainfeed" not in submitted.imported
    version, digest = submitted.imported["heavymath"].split()
    assert (version, len(digest)) == ("1.0", 64)


def test_equal_files_are_equal_whoever_installed_them(submitted, enter):
    enter("there", heavymath={"own": "pip"}, lightmath={"own": "uv"})
    submitted.require(None)


def test_a_package_that_another_requires_may_be_left_out(submitted, enter):
    enter("there", heavymath={})
    submitted.require(None)


@pytest.mark.parametrize(
    ("there", "name", "got"),
    [
        ({"heavymath": {"version": "2.0"}, "lightmath": {}}, "heavymath", r"2\.0 [0-9a-f]{64}"),
        ({"heavymath": {"text": "VALUE = 2"}}, "heavymath", r"1\.0 [0-9a-f]{64}"),
        ({"heavymath": {}, "lightmath": {"text": "VALUE = 2"}}, "lightmath", r"1\.0 [0-9a-f]{64}"),
        ({"lightmath": {}}, "heavymath", "none"),
    ],
)
def test_another_package_is_told_with_both_digests_and_the_machine(
    submitted, enter, there, name, got
):
    enter("there", **there)
    known = {**submitted.imported, **submitted.required}[name]
    said = rf"package {name} {known} on {socket.gethostname()}, as the .* process has it, got {got}"
    with pytest.raises(ConfigError, match=said) as caught:
        submitted.require(None)
    assert "requirements/functions.txt" in str(caught.value)


@pytest.mark.parametrize("finder", ["of Python", "of the backport"])
def test_a_file_that_was_changed_after_the_installation_is_named(submitted, enter, finder):
    if finder == "of the backport":
        # Once imported, it finds packages for all; as Python 3.12 it hides missing files.
        importlib.import_module("importlib_metadata")
    place = enter("there", heavymath={}, lightmath={})
    (place / "heavymath.py").write_text("VALUE = 2\n")
    (place / "lightmath.py").unlink()
    with pytest.raises(ConfigError, match=r"files of heavymath 1\.0 .* 1 changed: heavymath\.py"):
        submitted.require(None)
    (place / "heavymath.py").write_text(MATH)
    with pytest.raises(ConfigError, match=r"1 changed: lightmath\.py"):
        submitted.require(None)


def test_an_executor_looks_at_all_files_once(submitted, enter, tmp_path):
    executor = tmp_path / "executor"
    executor.mkdir()
    place = enter("there", heavymath={}, lightmath={})
    submitted.require(executor)
    (place / "heavymath.py").write_text("VALUE = 2\n")
    enter("there")  # another process of the executor
    submitted.require(executor)
    enter("there")
    with pytest.raises(ConfigError, match="1 changed"):
        submitted.require(None)


@pytest.mark.parametrize("record", [None, "heavymath.pth,sha256=47DEQ,0\n"])
def test_a_package_that_does_not_list_its_files_is_refused_before_the_start(enter, spec, record):
    file = enter("here", heavymath={}) / "heavymath-1.0.dist-info" / "RECORD"
    file.unlink() if record is None else file.write_text(record)
    with pytest.raises(ConfigError, match=r"expected heavymath, .* list of its files \(RECORD\)"):
        FunctionPackages.of(spec)
