"""The library that counts calls on files and strikes at one of them: built, loaded, its record."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from services._packages import install_packages
from services._process import run_tool

__all__ = ["Call", "Strike", "arm", "begin_anew", "is_loaded", "library", "read_record"]

SOURCE = Path(__file__).with_name("preload.c")
# The second program comes with the headers of the C library.
COMPILER = {"gcc": "gcc", "gencat": "libc6-dev"}
OPTIONS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-nonnull-compare")
VARIABLE = "LD_PRELOAD"


@dataclass(frozen=True)
class Call:
    """A call that changes something.

    Attributes:
        process: The process that made it: 0 is the command, 1 its first fork, and so on.
        number: Which call of this process it is, counted from 1.
        name: Name of the function of the C library.
        path: What it changes.
    """

    process: int
    number: int
    name: str
    path: str

    def __str__(self) -> str:
        return f"{self.process}:{self.number} {self.name} {self.path}"


@dataclass(frozen=True)
class Strike:
    """What happens before a call takes effect.

    Attributes:
        process: See ``Call``.
        number: See ``Call``.
        errno: The error that it returns; 0 for SIGKILL.
        is_lasting: Whether later calls that need space return the error, too.
    """

    process: int = 0
    number: int = 0
    errno: int = 0
    is_lasting: bool = False


def library(folder: Path) -> Path:
    """Return the built library below a folder; built unless this source was built there before."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    built = folder / f"kills-{digest}.so"
    if not built.exists():
        install_packages(COMPILER)
        folder.mkdir(parents=True, exist_ok=True)
        fd, unfinished = tempfile.mkstemp(dir=folder)
        os.close(fd)
        command = ["gcc", *OPTIONS, "-o", unfinished, str(SOURCE), "-ldl", "-lpthread"]
        run_tool(command, what=f"compiling {SOURCE.name}")
        Path(unfinished).replace(built)
    return built


def is_loaded(built: Path) -> bool:
    """Whether this process has been started with the library."""
    return os.environ.get(VARIABLE) == str(built)


def begin_anew(built: Path, module: str) -> NoReturn:
    """Start the program of this process again, with the library."""
    command = [sys.executable, "-m", module, *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, VARIABLE: str(built)})


def arm(built: Path, folders: Sequence[Path], record: Path, strike: Strike) -> None:
    """Begin to count in this process and its forks."""
    below = "".join(f"{folder}\n" for folder in folders)
    failed = ctypes.CDLL(str(built)).kills_arm(
        os.fsencode(below),
        os.fsencode(record),
        strike.process,
        ctypes.c_long(strike.number),
        strike.errno,
        int(strike.is_lasting),
    )
    assert not failed, f"{built} cannot count: {failed}"


def read_record(record: Path) -> list[Call]:
    """Return the counted calls in the order in which they were made."""
    if not record.exists():
        return []
    lines = record.read_text(errors="surrogateescape").splitlines()
    parts = (line.split(" ", 3) for line in lines)
    return [Call(int(process), int(number), name, path) for process, number, name, path in parts]
