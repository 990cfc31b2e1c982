"""Programs in Go: built once from a module of ours, and kept outside the checkout.

A build costs minutes of both cores, so a program is kept for every clone of this account. Its
folder carries the digest of what it was built from, and appears complete or not at all.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from services._process import InstallError, ServiceError, run_tool

__all__ = ["GoProgram", "required_version"]

_BUILD_S: Final = 3600.0
_NEEDED: Final = (1, 26)
# Without the optimiser the control plane is built in two thirds of the time, and starts as soon.
_FLAGS: Final = ("-trimpath", "-gcflags=all=-N -l")


class GoProgram:
    """One program, named by a package that a Go module of ours requires.

    Args:
        name: File name of the program.
        module: Folder with ``go.mod`` and ``go.sum``.
        package: What is built: ``.`` for the module itself.
        values: String variables that the linker sets, by their full names.
    """

    def __init__(
        self, name: str, module: Path, package: str, values: dict[str, str] | None = None
    ) -> None:
        self._module = module
        self._package = package
        self._values = values or {}
        self.path = _cache() / _digest(module) / name

    def unavailable(self) -> str | None:
        """Say why the program is neither here nor can be built, or None."""
        if self.path.exists():
            return None
        if shutil.which("go") is None:
            return f"{self.path.name} is not built, and there is no go to build it"
        if (found := _go_version()) < _NEEDED:
            return (
                f"{self.path.name} is not built; go {_text(_NEEDED)} builds it, not {_text(found)}"
            )
        return None

    def install(self) -> None:
        """Build the program unless it is here; takes minutes.

        Raises:
            InstallError: Go cannot build it; with the end of what Go said.
        """
        if self.path.exists():
            return
        if reason := self.unavailable():
            raise InstallError(reason)
        print(f"building {self.path} (minutes of both cores, once)", file=sys.stderr)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            built = Path(folder) / self.path.name
            self._go("build", *_FLAGS, "-ldflags", self._linked(), "-o", str(built), self._package)
            built.replace(self.path)

    def _go(self, verb: str, *arguments: str) -> None:
        try:
            run_tool(
                ["go", "-C", str(self._module), verb, *arguments],
                what=f"building {self.path.name}",
                environ={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""},
                timeout_s=_BUILD_S,
            )
        except ServiceError as error:
            raise InstallError(str(error)) from error

    def _linked(self) -> str:
        return " ".join(["-s", "-w", *(f"-X {k}={v}" for k, v in self._values.items())])


def required_version(module: Path, required: str) -> str:
    """Return the version, ``v1.2.3``, that the ``go.mod`` of a folder requires of a module."""
    text = (module / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(required)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ServiceError(f"{module}/go.mod requires no {required}")
    return found[1]


def _cache() -> Path:
    """Where programs are kept: ``$XDG_CACHE_HOME`` or ``~/.cache``, below it our own folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "trainfeed" / "kubernetes"


def _digest(module: Path) -> str:
    """Digest of what decides about the program: the sums of all modules, and our own files."""
    files = sorted(path for path in module.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _go_version() -> tuple[int, ...]:
    said = run_tool(["go", "env", "GOVERSION"], what="asking for the version of go")
    found = re.search(r"go(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0, 0)


def _text(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
