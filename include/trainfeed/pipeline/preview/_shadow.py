"""A publication root of one's own, to plan and build in as in the real one, which stays untouched.

It is a temporary folder. What a plan looks at (boundaries of topics, earlier plans and versions of
the interval) is there as links to the real files; whatever is written lands beside them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, init_root, require_root
from trainfeed.dataset.layout import SKIPPED
from trainfeed.paths import listed, walk
from trainfeed.storage.posix import map_errors

__all__ = ["shadowed"]

_PREFIX: Final = "trainfeed-"


@contextmanager
def shadowed(
    env: Environment, dataset: str, interval: str, *, published: bool
) -> Iterator[Environment]:
    """Give ``env`` a temporary root, removed at the end, with a data set as the real one knows it.

    Args:
        env: Where things are.
        dataset: The data set.
        interval: The interval that will be planned.
        published: Whether its plans and versions are there, too. Without them it is one that
            nobody has built yet; only then may a version be published in the shadow.

    Raises:
        RootError: Nobody has made the publication root of ``env``.
    """
    real = DatasetFolder(Path(env.root), dataset)
    require_root(real.root, env.root_setting)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as root:
        shadow = DatasetFolder(Path(root), dataset)
        init_root(shadow.root)
        with map_errors(real.path):
            _link_files(real.path / "boundaries", shadow.path / "boundaries")
            _copy_files(real.path / "code", shadow.path / "code")
            if published:
                plans = Path("plans") / interval
                _link_files(real.path / plans, shadow.path / plans)
                _link_folder(real.interval(interval), shadow.interval(interval))
        yield replace(env, root=root)


def _link_files(source: Path, target: Path) -> None:
    """Make the folders below ``source`` again, with links to their files."""
    for path in walk(source):
        if path.suffix != ".json" or path.name == SKIPPED:
            continue  # skipped ones are decided again: what is there now counts
        link = target / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)


def _copy_files(source: Path, target: Path) -> None:
    """Copy the texts of code: a link would not be read, and a folder of links be written to."""
    for path in listed(source, "*.json"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path.name)


def _link_folder(source: Path, target: Path) -> None:
    if source.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source, target_is_directory=True)
