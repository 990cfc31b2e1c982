"""Debian packages, installed only as root and only when a program is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from services._process import InstallError, ServiceError, run_tool

_INSTALL_S = 600.0


def packages_unavailable(programs: Mapping[str, str]) -> str | None:
    """Return which of ``programs`` cannot be installed; None if all are there or can be.

    Args:
        programs: Program → package with it.
    """
    missing = _missing(programs)
    if not missing:
        return None
    if os.geteuid() != 0:
        return f"{', '.join(missing)} not found, and only root can install it"
    if shutil.which("apt-get") is None:
        return f"{', '.join(missing)} not found, and there is no apt-get to install it"
    return None


def install_packages(programs: Mapping[str, str]) -> None:
    """Install the packages of missing ``programs``.

    Raises:
        InstallError: The package manager failed, or is not allowed.
    """
    missing = _missing(programs)
    if not missing:
        return
    if reason := packages_unavailable(programs):
        raise InstallError(reason)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = sorted({programs[program] for program in missing})
    for command in (["update", "-q"], ["install", "-qy", "--no-install-recommends", *packages]):
        try:
            run_tool(
                ["apt-get", *command],
                what=f"installing {' '.join(packages)}",
                environ=environ,
                timeout_s=_INSTALL_S,
            )
        except ServiceError as error:
            raise InstallError(str(error)) from error


def _missing(programs: Mapping[str, str]) -> list[str]:
    return [program for program in programs if shutil.which(program) is None]
