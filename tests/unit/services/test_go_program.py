"""Programs in Go are built once for what they are made of, and never half."""

from __future__ import annotations

import os

import pytest

from services import _go_program
from services._go_program import GoProgram, required_version
from services._process import InstallError
from trainfeed.core.config.variables import cache_place

_GO = """#!/bin/sh
case "$*" in
*GOVERSION*) echo go{version} ;;
*) while [ "$1" != -o ]; do shift; done; {build} ;;
esac
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module m\n\nrequire (\n\texample.org/p v1.2.3\n)\n")
    (folder / "go.sum").write_text("sums\n")
    return folder


def _install_go(tmp_path, monkeypatch, *, version="1.26.0", build='echo built > "$2"'):
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / "go"
    program.write_text(_GO.format(version=version, build=build))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")


def test_a_program_is_built_once_and_again_when_a_sum_changes(module, tmp_path, monkeypatch):
    _install_go(tmp_path, monkeypatch)
    first = GoProgram("p", module, ".")
    first.install()
    assert first.path.read_text() == "built\n"
    _install_go(tmp_path, monkeypatch, build="exit 1")
    GoProgram("p", module, ".").install()
    (module / "go.sum").write_text("other sums\n")
    assert GoProgram("p", module, ".").path != first.path


def test_programs_are_not_where_shards_are_cached(module, tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("TRAINFEED_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    cache, _ = cache_place(None, None)
    program = GoProgram("p", module, ".").path
    assert program.is_relative_to(tmp_path)
    assert not program.is_relative_to(cache)


def test_a_build_that_fails_leaves_nothing_and_says_what_go_said(module, tmp_path, monkeypatch):
    _install_go(tmp_path, monkeypatch, build='echo half > "$2"; echo "no such module" >&2; exit 1')
    program = GoProgram("p", module, ".")
    with pytest.raises(InstallError, match="no such module"):
        program.install()
    assert list(program.path.parent.iterdir()) == []


def test_without_go_or_with_an_old_one_the_reason_is_said(module, tmp_path, monkeypatch):
    monkeypatch.setattr(_go_program.shutil, "which", lambda _: None)
    assert "there is no go" in GoProgram("p", module, ".").unavailable()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _install_go(tmp_path, monkeypatch, version="1.19.8")
    assert "go 1.26 builds it, not 1.19" in GoProgram("p", module, ".").unavailable()


def test_a_built_program_needs_no_go(module, monkeypatch):
    program = GoProgram("p", module, ".")
    program.path.parent.mkdir(parents=True)
    program.path.touch()
    monkeypatch.setattr(_go_program.shutil, "which", lambda _: None)
    assert program.unavailable() is None
    program.install()


def test_the_version_of_a_module_is_that_of_the_requirements(module):
    assert required_version(module, "example.org/p") == "v1.2.3"
