"""Programs in Go: built once from a module of this repository, and kept outside the checkout.

A build takes minutes on two cores, so all clones of this account share the program. The name of its
folder contains the digest of its sources; the program file appears complete or not at all.
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

_BUILD_S: Final = 3600.0
_NEEDED: Final = (1, 26)
# Without the optimiser the build of the control plane takes two thirds of the time, and its start
# takes no longer.
_QUICK: Final = "-gcflags=all=-N -l"


class GoProgram:
    """One program: a package that a Go module of this repository requires.

    Args:
        name: File name of the program.
        module: Folder with ``go.mod`` and ``go.sum``.
        package: The package to build, ``.`` for the module itself.
        values: Go string variables that the linker sets, full name to value.
        service: Folder of the account's cache.
        is_fast: Whether the program has to be fast, and not its build.
    """

    def __init__(
        self,
        name: str,
        module: Path,
        package: str,
        values: dict[str, str] | None = None,
        *,
        service: str = "kubernetes",
        is_fast: bool = False,
    ) -> None:
        self._module = module
        self._package = package
        self._values = values or {}
        self._flags = ("-trimpath",) if is_fast else ("-trimpath", _QUICK)
        self.path = _cache() / service / _digest(module) / name

    def unavailable(self) -> str | None:
        """Return the reason why the program cannot be had; None if it is or can be built."""
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
        """Build the program, unless it is built; takes minutes.

        Raises:
            InstallError: Go is missing or too old, or the build failed; with the end of its output.
        """
        if self.path.exists():
            return
        if reason := self.unavailable():
            raise InstallError(reason)
        print(f"building {self.path} (minutes of both cores, once)", file=sys.stderr)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            built = Path(folder) / self.path.name
            self._go(
                "build", *self._flags, "-ldflags", self._linked(), "-o", str(built), self._package
            )
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
    """The folder of built programs, below ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "trainfeed-services"


def _digest(module: Path) -> str:
    """Digest of the program's sources: our own Go files, and the sums of all modules."""
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
