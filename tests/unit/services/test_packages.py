import os

import pytest

from services._home import remembered_ports
from services._packages import install_packages, packages_unavailable
from services._process import InstallError


@pytest.fixture
def empty_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_what_is_here_needs_no_package():
    assert packages_unavailable({"sh": "dash"}) is None
    install_packages({"sh": "dash"})


def test_without_apt_a_missing_program_is_named(empty_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert "java not found, and there is no apt-get" in packages_unavailable({"java": "jre"})
    with pytest.raises(InstallError, match="java not found"):
        install_packages({"java": "jre"})


def test_without_root_a_missing_program_is_named(empty_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert packages_unavailable({"java": "jre"}) == "java not found, and only root can install it"


def test_a_package_manager_that_fails_is_quoted(empty_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    apt = empty_path / "apt-get"
    apt.write_text("#!/bin/sh\necho no network >&2\nexit 100\n")
    apt.chmod(0o755)

    with pytest.raises(InstallError, match=r"installing jre(.|\n)*no network"):
        install_packages({"java": "jre"})


def test_ports_once_chosen_are_kept(tmp_path):
    (tmp_path / "ports.json").write_text('{"broker": 4711}')

    assert remembered_ports(tmp_path, {"broker": 1}) == {"broker": 4711}
