"""A temporary publication root, to plan and build in while the real root stays unchanged.

The files that a plan reads (boundaries of topics, earlier plans and versions of the interval) are
links to the files of the real root. New files are written beside the links.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, init_root, require_root
from trainfeed.dataset.layout import SKIPPED
from trainfeed.paths import listed, walk
from trainfeed.storage.posix import map_errors

__all__ = ["boundaries_apart", "shadowed"]

_PREFIX: Final = "trainfeed-"
_BOUNDARIES: Final = "boundaries"


@contextmanager
def shadowed(
    env: Environment,
    dataset: str,
    interval: str,
    *,
    published: bool,
    neighbours: Sequence[str] = (),
) -> Iterator[Environment]:
    """Yield ``env`` with a temporary root that has a data set of the real one; removed at the end.

    Args:
        env: Folders and connections.
        dataset: The data set.
        interval: The interval that will be planned.
        published: Whether plans and versions of the interval are linked, too. Without them the
            interval counts as not published, and a version may be published in the shadow. With
            them it may not: a linked folder of versions is the real folder.
        neighbours: Intervals whose versions are linked, too, because a plan is compared with them.

    Raises:
        RootError: The root of ``env`` was not made by ``trainfeed init``.
    """
    real = DatasetFolder(Path(env.root), dataset)
    require_root(real.root, env.root_setting)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as root:
        shadow = DatasetFolder(Path(root), dataset)
        init_root(shadow.root)
        with map_errors(real.path):
            _link_files(real.path / _BOUNDARIES, shadow.path / _BOUNDARIES)
            _copy_files(real.path / "code", shadow.path / "code")
            _copy_uploads(real.uploads / interval, shadow.uploads / interval)
            _link_receipts(real.receipts, shadow.receipts)
            if published:
                plans = Path("plans") / interval
                _link_files(real.path / plans, shadow.path / plans)
                _link_folder(real.interval(interval), shadow.interval(interval))
            for name in neighbours:
                _link_folder(real.interval(name), shadow.interval(name))
        yield replace(env, root=root)


@contextmanager
def boundaries_apart(folder: DatasetFolder) -> Iterator[DatasetFolder]:
    """Yield a data set whose further boundary files are written elsewhere, and removed at the end.

    All else of it is the real one, and only to be read.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as root:
        apart = DatasetFolder(Path(root), folder.name)
        apart.path.mkdir()
        with map_errors(folder.path):
            for path in sorted(folder.path.iterdir()):
                if path.name == _BOUNDARIES:
                    _link_files(path, apart.path / path.name)
                else:
                    (apart.path / path.name).symlink_to(path)
        yield apart


def _link_files(source: Path, target: Path) -> None:
    """Copy the tree of folders below ``source``, with links in place of the files."""
    for path in walk(source):
        if path.suffix != ".json" or path.name == SKIPPED:
            continue  # the shadow decides again whether the interval is skipped
        link = target / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)


def _copy_files(source: Path, target: Path) -> None:
    """Copy the texts of code: they are read without following links, and may be written."""
    for path in listed(source, "*.json"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path.name)


def _copy_uploads(source: Path, target: Path) -> None:
    """Copy the files of uploads, which are read without following links; a link stays a link."""
    for path in listed(source):
        if path.is_file() or path.is_symlink():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / path.name, follow_symlinks=False)


def _link_receipts(source: Path, target: Path) -> None:
    """Link receipts and kept bytes of uploads; the shadow writes further ones beside the links."""
    for path in walk(source, hidden=False):
        if path.is_file():
            link = target / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)


def _link_folder(source: Path, target: Path) -> None:
    if source.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source, target_is_directory=True)
